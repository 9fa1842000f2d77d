//! Finding objects in images: `vision.roi_align` ….

mod regions;
mod suppression;

use ir_core::Registry;

pub use regions::{RoiAlign, RoiPool};
pub use suppression::NonMaxSuppression;

pub(super) fn register(registry: &mut Registry) {
    suppression::register(registry);
    regions::register(registry);
}
