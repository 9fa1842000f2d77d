//! Type relations shared by several operators.
