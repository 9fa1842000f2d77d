//! Images sampled at places that are computed.

use ir_core::{AttrDict, DType, Scalar, TensorData, ValueId};

use super::Network;

impl Network<'_> {
    /// An image at the places of a grid, or regions of one.
    pub(super) fn sampling(&mut self) -> Option<ValueId> {
        let none = AttrDict::empty();
        if self.random.one_in(2) {
            let axes = 1 + self.random.below(3);
            let data = self.image(axes);
            let mut shape = vec![self.shape(data)[0], axes as i64];
            shape.extend((0..axes).map(|_| self.one_of(&[1, 2, 5, 8])));
            let dtype = if self.random.one_in(3) { DType::FLOAT64 } else { DType::FLOAT32 };
            let grid = self.input(dtype, &shape);
            let method = self.pick(&["nearest", "bilinear", "bilinear", "bicubic"]);
            let padding = self.pick(&["zeros", "border", "reflection"]);
            let attrs = none.with("method", &method.to_string());
            let attrs = attrs.with("padding_mode", &padding.to_string());
            let attrs = attrs.with("align_corners", &self.random.one_in(2));
            return self.apply("image.grid_sample", &[data, grid], attrs);
        }
        let data = self.image(2);
        let shape = self.shape(data);
        let regions = self.one_of(&[0, 1, 2, 5]);
        let mut corners = Vec::new();
        for _ in 0..regions {
            corners.push(self.random.below(shape[0] as usize) as f64);
            corners.extend((0..4).map(|_| self.random.below(80) as f64 / 4.0 - 4.0));
        }
        let corners = corners.into_iter().map(Scalar::Float);
        let rois = TensorData::from_scalars(DType::FLOAT32, &[regions, 5], corners).ok()?;
        let rois = self.builder.constant(rois);
        let size = vec![self.one_of(&[1, 2, 7]), self.one_of(&[1, 3, 4])];
        let attrs = none.with("pooled_size", &size).with("spatial_scale", &0.5);
        let attrs = attrs.with("sample_ratio", &self.one_of(&[1, 2, 3]));
        let attrs = attrs.with("mode", &self.pick(&["avg", "max"]).to_string());
        let attrs = attrs.with("aligned", &self.random.one_in(2));
        self.apply("vision.roi_align", &[data, rois], attrs)
    }
}
