/* Instruction set of the leaf functions: the widest that the processor and its system support.
 *
 * All sets give equal results: draws do not depend on the processor. A loader calls mh_use_set
 * once, before anything else; until then, and on other processors, the baseline is used. */
#include "inside.h"

#define FIELD(gives, result, name, parameters, arguments) result(*name) parameters;
typedef struct leaves {
    MH_LEAVES(FIELD)
} leaves;

#define BASELINE(gives, result, name, parameters, arguments) result name##_baseline parameters;
#define AVX2(gives, result, name, parameters, arguments) result name##_avx2 parameters;
#define OF_BASELINE(gives, result, name, parameters, arguments) .name = name##_baseline,
#define OF_AVX2(gives, result, name, parameters, arguments) .name = name##_avx2,

MH_LEAVES(BASELINE)
#ifdef __x86_64__
#include <cpuid.h>

MH_LEAVES(AVX2)
static const leaves sets[] = {{MH_LEAVES(OF_BASELINE)}, {MH_LEAVES(OF_AVX2)}};

/* Widest supported set: Intel's manual, volume 1, 14.7. CPUID leaf 1 tells whether the system saves
 * wide registers, XCR0 which ones, and leaf 7 what the processor has. __builtin_cpu_supports is
 * avoided: some compilers lack a function that it calls. */
int64_t mh_widest_set(void)
{
    const unsigned ymm = 0x6, avx2 = 1U << 5;
    unsigned a, b, c, d, kept, rest;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return MH_BASELINE;
    __asm__ volatile("xgetbv" : "=a"(kept), "=d"(rest) : "c"(0));
    if ((kept & ymm) != ymm || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return MH_BASELINE;
    return b & avx2 ? MH_AVX2 : MH_BASELINE;
}
#else
static const leaves sets[] = {{MH_LEAVES(OF_BASELINE)}};

int64_t mh_widest_set(void) { return MH_BASELINE; }
#endif

static const leaves *chosen = sets;

int64_t mh_use_set(int64_t set)
{
    if (set < MH_BASELINE || set > mh_widest_set())
        return 0;
    chosen = sets + set;
    return 1;
}

#define CALLED(gives, result, name, parameters, arguments) \
    result name parameters { gives chosen->name arguments; }
MH_LEAVES(CALLED)
