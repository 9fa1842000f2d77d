//! A dialect of loops with a pass over it.

// ANCHOR: dialect
use ir_core::{
    Dialect, FuncMut, FunctionPass, InsertPoint, ItemDef, Op, OpId, Pass, PassContext, PassResult,
    ValueMap,
};

/// Runs its region `count` times.
#[derive(Op, Clone, Debug)]
#[op(name = "toy.repeat", traits(RECURSIVE_EFFECTS), regions(body), results = 0)]
pub struct Repeat {
    /// How often.
    pub count: i64,
}

/// Says a word.
#[derive(Op, Clone, Debug)]
#[op(name = "toy.say", effects(WRITE), results = 0)]
pub struct Say {
    /// The word.
    pub word: String,
}

/// Ends a block.
#[derive(Op, Clone, Debug)]
#[op(name = "toy.end", traits(TERMINATOR), results = 0)]
pub struct End {}

/// The dialect.
pub fn dialect() -> Dialect {
    Dialect {
        name: "toy",
        doc: "Loops that say words.",
        register: |registry| {
            registry.op::<Repeat>();
            registry.op::<Say>();
            registry.op::<End>();
            registry.add_item(ItemDef::new("toy.main", "What a program does."));
        },
    }
}

/// Writes out short loops.
#[derive(Pass)]
#[pass(name = "toy-unroll", function)]
pub struct Unroll {
    /// Longest loop to write out.
    #[default(8)]
    pub limit: i64,
}

impl FunctionPass for Unroll {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        // Inner loops come later in program order: from the last to the first, each is unrolled
        // once, before the loop around it is copied.
        for op in f.all::<Repeat>().into_iter().rev() {
            let Some(repeat) = f.view::<Repeat>(op) else { continue };
            if repeat.count <= self.limit {
                let mut inside: Vec<OpId> = f.body.block_ops(f.body.region_block(op, 0)).collect();
                inside.pop(); // its `toy.end`
                for _ in 0..repeat.count {
                    let mut map = ValueMap::default();
                    for &inner in &inside {
                        f.body.copy_op(inner, InsertPoint::Before(op), &mut map);
                    }
                }
                f.body.erase(op);
                cx.count("unrolled", 1);
            }
        }
        Ok(())
    }
}
// ANCHOR_END: dialect
