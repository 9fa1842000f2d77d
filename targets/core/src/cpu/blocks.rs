//! Long sums of products, a block of terms at a time.

use te::loops::Scope;
use te::schedule::{Access, Axis, Refused, Stage};

use super::{Band, Rules, is_vector, reduce};

/// So many terms of each sum are added up in registers, at least: what is read and written of all sums for each block
/// is little then.
const LEAST_TERMS: i64 = 32;

/// Tiles of few rows have about so many vectors.
const TILE_VECTORS: i64 = 2;

/// Sums of products, with what a block of their terms is.
struct Blocks {
    product: Stage,
    /// The outermost loop over terms, and how many of its iterations are a block.
    terms: Axis,
    block: i64,
    /// How many leading dimensions, such as one of a batch, are of products that have no factor in common.
    apart: usize,
}

impl Rules<'_> {
    /// Where `root` reads sums of products that are few and long, as the change of a weight is: adds up the terms of all
    /// sums block by block, where a block of the factors stays in a cache that all of them do not. Without that, each
    /// tile of sums reads all its terms from farther away. What is computed of factors for products is computed
    /// for a block then.
    pub(super) fn blocks(&mut self, root: Stage) -> bool {
        let Some(blocks) = self.choose_blocks(root) else { return false };
        let before = self.schedule.clone();
        let done = self.compute_blocks(root, &blocks);
        if !matches!(done, Ok(true)) {
            *self.schedule = before;
            return false;
        }
        true
    }

    fn choose_blocks(&self, root: Stage) -> Option<Blocks> {
        let product = match self.producers(root)[..] {
            [product] if self.is_product_of_matrices(product, 0) => product,
            _ => return None,
        };
        let view = te::compute::Stage::of(self.schedule.body(), self.schedule.stage_op(product))?;
        let is_plain = self.schedule.readers(product).len() == 1
            && view.counts.is_empty()
            && self.dtype(product).is_float()
            && self.schedule.attached_to(product).is_none();
        let axes = self.schedule.axes(product).to_vec();
        let extent = |axis: usize| self.schedule.extent(axes[axis]);
        let dimensions = self.spatial(product).len();
        let accesses = self.schedule.accesses(product);
        let depends = |axis: usize| accesses.iter().all(|access| access.depends_on(axis));
        let apart = (0..dimensions).take_while(|axis| extent(*axis) == 1 || depends(*axis)).count();
        let terms = (dimensions..axes.len()).find(|axis| extent(*axis) > 1)?;
        let [near, far, _] = self.machine.caches.map(|bytes| bytes as i64);
        let sums = (apart..dimensions).map(extent).fold(1i64, i64::saturating_mul);
        let sums = sums.saturating_mul(i64::from(self.bits(product)) / 8);
        let factors: Vec<i64> =
            accesses.iter().map(|access| self.bytes_apart(access, apart, &axes)).collect();
        // Tiles read one factor again for each few columns of the other one, which is read once then.
        let all_terms = axes[terms..].iter().map(|axis| self.schedule.extent(*axis));
        let vectors = TILE_VECTORS * self.machine.vector_bits as i64 / 8;
        let columns = all_terms.fold(vectors, i64::saturating_mul);
        let again = factors.iter().copied().min().unwrap_or(0);
        let is_near = again.saturating_add(columns) <= far;
        let factors = factors.into_iter().fold(0i64, i64::saturating_add);
        if !is_plain || is_near || !depends(terms) || sums > far / 2 || factors <= far / 2 {
            return None;
        }
        let each = (factors / extent(terms)).max(1);
        let within = (terms + 1..axes.len()).map(extent).fold(1i64, i64::saturating_mul);
        let least = (LEAST_TERMS + within - 1) / within;
        let most = (near / each).max(least).min(extent(terms) / 2);
        // The last block is as long as the others where that costs little.
        let divides = |block: &i64| extent(terms) % block == 0;
        let block = (least.max(most / 2)..=most).rev().find(divides).unwrap_or(most);
        (block >= least && block.saturating_mul(each) <= far / 2).then(|| Blocks {
            product,
            terms: axes[terms],
            block,
            apart,
        })
    }

    /// The bytes that are read of `access`, of one index of each of the first dimensions, of which there are `apart`.
    fn bytes_apart(&self, access: &Access, apart: usize, axes: &[Axis]) -> i64 {
        let Some(ty) = self.schedule.body().ty(access.tensor).as_tensor() else { return i64::MAX };
        let several = (0..apart).filter(|axis| access.depends_on(*axis));
        let products = several.map(|axis| self.schedule.extent(axes[axis])).product::<i64>();
        let elements = ty.elements().unwrap_or(i64::MAX) / products.max(1);
        elements.saturating_mul(i64::from(ty.dtype.bits()) / 8)
    }

    /// Whether it could be done; where it could not, changes are to be taken back.
    fn compute_blocks(&mut self, root: Stage, blocks: &Blocks) -> Result<bool, Refused> {
        let Blocks { product, terms, block, apart } = *blocks;
        let (outer, _) = self.schedule.split(terms, block)?;
        let partial = self.schedule.rfactor(outer)?;
        self.schedule.set_scope(product, Scope::Global)?;
        let axes = self.schedule.axes(product).to_vec();
        let spatial = self.spatial(product);
        let Some(last) = spatial.iter().rposition(|extent| *extent > 1) else { return Ok(false) };
        let Some((lanes, accesses)) = self.tile_lanes(&spatial, last, partial) else {
            return Ok(false);
        };
        let work = self.tile_work(partial);
        let counted = self.counted(product);
        let tile = self.choose_tile((&spatial, &counted), last, (lanes, 4), &accesses, work);
        let all = axes[spatial.len()];
        let Some((loops, inner)) = self.split_tile(&axes[..spatial.len()], &tile, last, lanes)
        else {
            return Ok(false);
        };
        let (before, within) = loops.split_at(apart);
        let mut around: Vec<Axis> = before.iter().map(|(_, axis)| *axis).collect();
        let mut within: Vec<(usize, Axis)> = within.to_vec();
        let is_shared = self.is_shared_work(work);
        if let Some(vectors) = accesses.iter().find(|access| is_vector(access)) {
            within.sort_by_key(|(position, _)| !vectors.depends_on(*position));
        }
        // Threads share products that have nothing in common, or else parts of what is read in vectors.
        let several = |axis: &Axis| self.schedule.extent(*axis) > 1;
        if is_shared && !around.iter().any(several) {
            let shared = within.iter().position(|(_, axis)| several(axis));
            around.extend(shared.map(|shared| within.remove(shared).1));
        }
        let within: Vec<Axis> = within.into_iter().map(|(_, axis)| axis).collect();
        let Some(&at) = within.last() else { return Ok(false) };
        let order = around.iter().chain([&all]).chain(&within);
        let order: Vec<Axis> =
            order.copied().chain(inner.iter().map(|(_, axis, _)| *axis)).collect();
        self.schedule.reorder(&order)?;
        for (_, axis, _) in inner.iter().filter(|(_, _, is_row)| *is_row) {
            self.schedule.unroll(*axis)?;
        }
        if is_shared && !around.is_empty() {
            self.parallelize(&around, work);
        }
        self.schedule.compute_at(partial, at)?;
        self.schedule.set_scope(partial, Scope::Register)?;
        self.tile_within(partial, last, &tile, &accesses);
        self.compute_factors(partial, all, (spatial.len() + 1, block))?;
        self.plain(root);
        Ok(true)
    }

    /// Computes what only `partial` reads, of the terms of one block, in the loop `at` over blocks. `terms` says which
    /// axis of `partial` they are along, and how many there are.
    fn compute_factors(
        &mut self,
        partial: Stage,
        at: Axis,
        (terms, block): (usize, i64),
    ) -> Result<(), Refused> {
        for stage in self.producers(partial) {
            let accesses = self.schedule.accesses(partial);
            let of_stage =
                accesses.iter().find(|access| self.schedule.stage_of(access.tensor) == Some(stage));
            let Some(access) = of_stage else { continue };
            let steps = access.by_dimension.iter().map(|steps| steps.get(terms).copied().flatten());
            let mut moved = steps.enumerate().filter(|(_, step)| *step != Some(0));
            let (Some((dimension, Some(1))), None) = (moved.next(), moved.next()) else { continue };
            let is_own = self.schedule.readers(stage)[..] == [partial]
                && self.schedule.is_root(stage)
                && !self.schedule.is_ordered(stage)
                && reduce(self.schedule, stage).is_none();
            if is_own {
                self.schedule.compute_at(stage, at)?;
                let band = Some(Band { dimension, extent: block });
                Rules { band, ..Rules::new(self.schedule, self.machine) }.root(stage);
            }
        }
        Ok(())
    }
}
