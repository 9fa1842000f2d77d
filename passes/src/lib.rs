//! The passes over relay modules, one file each.
