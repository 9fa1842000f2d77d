//! Arena IR.
