//! How many blocks and threads a kernel runs on.

use ir_core::{Body, Diagnostics, Item, OpId};
use target_core::Gpu;
use target_core::gpu::launches::Launch;
use te::loops::ThreadAxis;

use super::refusal;

/// The error that a limit of the device is exceeded.
pub(super) fn limit(item: &Item, op: OpId, message: String) -> Diagnostics {
    let mut error = refusal(item, Some(op), message);
    error.code = "E0915";
    error.help("split the loops further, or keep less in shared memory").into()
}

/// How an axis is written.
fn name(axis: ThreadAxis) -> String {
    let (what, axis) = match axis {
        ThreadAxis::Block(axis) => ("blockIdx", axis),
        ThreadAxis::Thread(axis) => ("threadIdx", axis),
    };
    format!("{what}.{}", ["x", "y", "z"][axis])
}

/// The blocks and threads of the kernel `item`: of each axis as many as its longest loop has
/// iterations. Loops over blocks are around all else; those over threads may follow one another.
pub(super) fn launch(item: &Item, body: &Body, gpu: &Gpu) -> Result<Launch, Diagnostics> {
    let mut launch = Launch { blocks: [1; 3], threads: [1; 3] };
    // Whether a loop over the axis was seen; one without iterations leaves nothing to run.
    let mut extents: [[Option<i64>; 3]; 2] = [[None; 3]; 2];
    // Operations with the axes around them, and whether they are all there is so far.
    let entry: Vec<OpId> = body.block_ops(body.entry()).collect();
    let mut pending: Vec<(Vec<OpId>, Vec<ThreadAxis>, bool)> = vec![(entry, vec![], true)];
    while let Some((ops, around, leads)) = pending.pop() {
        let statements =
            ops.iter().filter(|op| body.result_count(**op) == 0 && body.next_op(**op).is_some());
        let leads = leads && statements.count() <= 1;
        for op in ops.into_iter().filter(|op| body.has_regions(*op)) {
            let (mut around, mut leads) = (around.clone(), leads);
            match ThreadAxis::of(body, op) {
                Some((axis, _)) if around.contains(&axis) => {
                    let message = format!("a loop over {} in another one", name(axis));
                    return Err(refusal(item, Some(op), message).into());
                }
                Some((axis, extent)) => {
                    let (known, most) = match axis {
                        ThreadAxis::Block(at) => (&mut extents[0][at], gpu.blocks[at]),
                        ThreadAxis::Thread(at) => (&mut extents[1][at], gpu.threads[at]),
                    };
                    if extent > most {
                        let message = format!(
                            "{extent} iterations over {}, of which there are {most} at most",
                            name(axis)
                        );
                        return Err(limit(item, op, message));
                    }
                    if matches!(axis, ThreadAxis::Block(_)) && !leads {
                        let message = format!(
                            "the loop over {} is not around all else, and blocks do not wait for one another",
                            name(axis)
                        );
                        return Err(refusal(item, Some(op), message).into());
                    }
                    leads &= matches!(axis, ThreadAxis::Block(_));
                    *known = Some(known.map_or(extent, |known| known.max(extent)));
                    around.push(axis);
                }
                None => leads = false,
            }
            for region in body.regions(op) {
                let inner = body.block_ops(body.block_of(*region)).collect();
                pending.push((inner, around.clone(), leads));
            }
        }
    }
    launch.blocks = extents[0].map(|extent| extent.unwrap_or(1));
    launch.threads = extents[1].map(|extent| extent.unwrap_or(1));
    let threads: i64 = launch.threads.iter().product();
    if threads > gpu.block_threads {
        let message =
            format!("a block of {threads} threads, of which it has {} at most", gpu.block_threads);
        let first = body.first_op(body.entry()).expect("loops are operations");
        return Err(limit(item, first, message));
    }
    Ok(launch)
}
