"""Tables and numbers in Markdown, as all pages write them."""


def markdown(head, rows):
    """Return a table; a bar inside a cell is written as one."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[str(cell).replace("|", "\\|") for cell in line] for line in lines]
    return "".join("| " + " | ".join(line) + " |\n" for line in cells)


def significant(x):
    """Return a positive number with about two digits, without an exponent."""
    if x >= 100.0:
        return f"{float(f'{x:.2g}'):,.0f}"
    text = f"{x:.1f}" if x >= 10.0 else f"{float(f'{x:.2g}'):g}"
    return text.removeprefix("0") if x < 1.0 else text
