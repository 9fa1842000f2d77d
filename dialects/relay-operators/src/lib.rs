//! The tensor operators of the relay dialect, and with them the dialect.
//!
//! Every operator is one struct: its fields are the operands and attributes, its `#[op(…)]` names
//! the type relation and the hooks. To add one, write the struct in the module of its family and
//! name it in that module's `register`.
//!
//! ```
//! use ir_core::text::Form;
//! use ir_core::Registry;
//! use relay::interpreter::Interpreter;
//!
//! let registry = Registry::from([te::dialect(), relay_operators::dialect()]);
//! let text = "def @main() { sum(nn.relu(ones(shape=[2], dtype=\"float32\"))) }";
//! let (mut module, found) = Form::Readable.parse("sum.relay", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! assert!(relay::inference::infer_module(&mut module, &registry).is_empty());
//! let value = Interpreter::new(&module, &registry).call("main", vec![]).expect("a value");
//! assert_eq!(value.to_string(), "2");
//! ```

use ir_core::{Dialect, Registry};

pub mod annotation;
pub mod attributes;
pub mod batch;
pub mod broadcast;
pub mod create;
pub mod describe;
pub mod dynamic;
pub mod elements;
pub mod elementwise;
pub mod gradient;
pub mod image;
pub mod index;
pub mod join;
pub mod layout;
pub mod layout_rule;
pub mod linalg;
pub mod memory;
pub mod nn;
pub mod pattern;
pub mod qnn;
pub mod random;
pub mod reduce;
pub mod relation;
mod rule_files;
mod rules;
pub mod shape;
pub mod sort;
pub mod spectrum;
mod spread;
#[cfg(test)]
mod tests;
pub mod vision;
mod work;

pub use batch::Batch;
pub use gradient::Gradient;
pub use ir_core::{Fill, is_large_fill};
pub use layout_rule::LayoutRule;
pub use pattern::{
    CountsElements, FusionPattern, ReshapeOnly, Rows, ShapeFromData, Transcendental,
};
pub use work::multiply_adds;

/// Operators that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Heading in the reference.
    pub title: &'static str,
    /// Adds the operators.
    pub register: fn(&mut Registry),
}

/// All operators, by family.
pub const FAMILIES: &[Family] = &[
    Family { title: "Elementwise", register: elementwise::register },
    Family { title: "Broadcasting", register: broadcast::register },
    Family { title: "Reductions", register: reduce::register },
    Family { title: "Creation", register: create::register },
    Family { title: "Random numbers", register: random::register },
    Family { title: "Shape", register: shape::register },
    Family { title: "Joining and splitting", register: join::register },
    Family { title: "Indexing", register: index::register },
    Family { title: "Dynamic shapes", register: dynamic::register },
    Family { title: "Sorting", register: sort::register },
    Family { title: "Fourier transforms", register: spectrum::register },
    Family { title: "Images", register: image::register },
    Family { title: "Vision", register: vision::register },
    Family { title: "Annotations", register: annotation::register },
    Family { title: "Gradients", register: gradient::register },
    Family { title: "Many examples at once", register: batch::register },
    Family { title: "Layouts", register: layout::register },
    Family { title: "Convolution", register: nn::convolution::register },
    Family { title: "Correlation and dilation", register: nn::correlation::register },
    Family { title: "Deformable convolution", register: nn::deformable::register },
    Family { title: "Transposed convolution", register: nn::transposed_convolution::register },
    Family { title: "Convolution by fewer products", register: nn::winograd::register },
    Family { title: "Products of bytes", register: nn::words::register },
    Family { title: "Pooling", register: nn::pooling::register },
    Family { title: "Adaptive pooling", register: nn::adaptive_pooling::register },
    Family { title: "Matrix products", register: nn::linear::register },
    Family { title: "Linear algebra", register: linalg::register },
    Family { title: "Einstein summation", register: nn::einsum::register },
    Family { title: "Normalization", register: nn::normalization::register },
    Family { title: "Activation", register: nn::activation::register },
    Family { title: "Padding", register: nn::padding::register },
    Family { title: "Resampling", register: nn::resampling::register },
    Family { title: "Rearrangement", register: nn::rearrangement::register },
    Family { title: "Losses", register: nn::loss::register },
    Family { title: "Quantized", register: qnn::register },
    Family { title: "Memory and the virtual machine", register: memory::register },
];

/// The dialect, the language with its operators, for [`Registry::add_dialect`].
pub fn dialect() -> Dialect {
    Dialect {
        name: "relay",
        doc: "A purely functional, statically typed tensor language.",
        register: |registry: &mut Registry| {
            relay::register(registry);
            for family in FAMILIES {
                (family.register)(registry);
            }
            rules::register(registry);
            rule_files::register(registry);
        },
    }
}
