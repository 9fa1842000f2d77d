//! What is known of one item besides its types.

/// What running a body once costs, as far as its types tell.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Operations.
    pub operations: u64,
    /// Arithmetic operations on elements.
    pub arithmetic: f64,
    /// Bytes that are read and written.
    pub bytes: f64,
}
