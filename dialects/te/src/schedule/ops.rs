//! Primitives as operations.
