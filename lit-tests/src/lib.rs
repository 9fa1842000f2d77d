//! lit runner and FileCheck.
