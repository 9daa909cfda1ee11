# Fit effects of groups by maximum likelihood with Laplace's approximation.
# Rscript maximum_likelihood.R TABLE.csv FAMILY OUT.csv: columns y, x1, ..., g1, ...
suppressMessages(library(glmmTMB))
given <- commandArgs(TRUE)
rows <- read.csv(given[1])
slopes <- grep("^x", names(rows), value = TRUE)
groups <- grep("^g", names(rows), value = TRUE)
rows[groups] <- lapply(rows[groups], factor)
terms <- c("1", slopes, sprintf("(1 | %s)", groups))
written <- as.formula(paste("y ~", paste(terms, collapse = " + ")))
took <- system.time(fit <- glmmTMB(written, family = given[2], data = rows))[["elapsed"]]

told <- function(kind, level, value) data.frame(kind = kind, level = level, value = value)
fixed <- fixef(fit)$cond
scales <- sqrt(unlist(VarCorr(fit)$cond))
effects <- ranef(fit)$cond
found <- c(
  list(told("seconds", 0, took)),
  list(told("fixed", seq_along(fixed) - 1, fixed)),
  list(told("scale", seq_along(scales) - 1, scales)),
  lapply(groups, function(g) told(g, as.integer(rownames(effects[[g]])), effects[[g]][[1]]))
)
write.csv(do.call(rbind, found), given[3], row.names = FALSE)
