"""One observation as an expression of scalars: identities, signs, linear predictors."""
