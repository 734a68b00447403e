"""Rules of params, vars, expressions, references and outputs."""
