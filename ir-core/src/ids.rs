//! The 4-byte ids of a [`Body`](crate::Body)'s rows.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;

use id_arena::ArenaBehavior;

/// A dense id: one more than its index, so that `Option` of it is 4 bytes too.
pub trait EntityId: Copy + Eq + fmt::Debug {
    /// The id of row `index`.
    fn from_index(index: usize) -> Self;
    /// The row of this id.
    fn index(self) -> usize;
}

macro_rules! entity_ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl EntityId for $name {
            fn from_index(index: usize) -> Self {
                match u32::try_from(index + 1).ok().and_then(NonZeroU32::new) {
                    Some(id) => $name(id),
                    None => panic!("a body holds at most 2^32 - 2 rows of a kind"),
                }
            }
            fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.index())
            }
        }
    )*};
}

entity_ids! {
    /// An operation of a body.
    OpId "op";
    /// A block of a body.
    BlockId "block";
    /// A region of a body.
    RegionId "region";
    /// A value of a body: an operation's result or a block's argument.
    ValueId "value";
    /// An operand slot, which is also a node of its value's use-list.
    UseId "use";
}

/// Tells `id_arena` to hand out our 4-byte ids instead of its 16-byte ones.
#[derive(Clone, Copy, Debug)]
pub struct Dense<I>(PhantomData<I>);

impl<I: EntityId> ArenaBehavior for Dense<I> {
    type Id = I;
    fn new_arena_id() -> u32 {
        0
    }
    fn new_id(_arena: u32, index: usize) -> I {
        I::from_index(index)
    }
    fn index(id: I) -> usize {
        id.index()
    }
    fn arena_id(_id: I) -> u32 {
        0
    }
}
