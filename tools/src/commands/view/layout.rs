//! Where boxes of a drawing stand: in rows, each below all that it reads.

use std::collections::VecDeque;

/// Pixels between rows, and between neighbours.
const ROW: f64 = 30.0;
const GAP: f64 = 16.0;

/// Rounds of moving boxes towards what they are joined with; fewer in large drawings.
const ROUNDS: usize = 8;
const LARGE: usize = 5000;

/// A box; its place is that of its left upper corner.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// How far from the left side edges begin and end.
    pub(crate) anchor: f64,
}

impl Area {
    fn middle(&self) -> f64 {
        self.x + self.anchor
    }
}

/// Places boxes so that every edge leads down, none overlap, and the corner of all is the origin;
/// the extents of all. Takes time in proportion to boxes and edges, but for sorting rows. Edges of
/// a cycle lead anywhere.
pub(crate) fn place(boxes: &mut [Area], edges: &[(usize, usize)]) -> (f64, f64) {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for (index, row) in rows_of(boxes.len(), edges).into_iter().enumerate() {
        rows.resize_with(rows.len().max(row + 1), Vec::new);
        rows[row].push(index);
    }
    let mut y = 0.0;
    for row in &rows {
        let height = row.iter().map(|&index| boxes[index].height).fold(0.0, f64::max);
        for &index in row {
            boxes[index].y = y + (height - boxes[index].height) / 2.0;
        }
        y += height + ROW;
    }
    let mut near = vec![vec![]; boxes.len()];
    for &(from, to) in edges {
        near[from].push(to);
        near[to].push(from);
    }
    for row in &rows {
        let total: f64 = row.iter().map(|&index| boxes[index].width + GAP).sum();
        let mut x = -total / 2.0;
        for &index in row {
            boxes[index].x = x;
            x += boxes[index].width + GAP;
        }
    }
    let rounds = if boxes.len() > LARGE { 2 } else { ROUNDS };
    for _ in 0..rounds {
        for row in &mut rows {
            spread(row, boxes, &near);
        }
        for row in rows.iter_mut().rev() {
            spread(row, boxes, &near);
        }
    }
    let left = boxes.iter().map(|area| area.x).fold(f64::INFINITY, f64::min);
    let right = boxes.iter().map(|area| area.x + area.width).fold(left, f64::max);
    for area in boxes.iter_mut() {
        area.x = (area.x - left).round();
    }
    (if boxes.is_empty() { 0.0 } else { right - left }, (y - ROW).max(0.0))
}

/// The row of each box: the first one below all that it reads; what reads nothing stands right
/// above what reads it first.
fn rows_of(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut readers = vec![vec![]; count];
    let mut missing = vec![0usize; count];
    for &(from, to) in edges {
        readers[from].push(to);
        missing[to] += 1;
    }
    let sources: Vec<usize> = (0..count).filter(|&index| missing[index] == 0).collect();
    let mut rows = vec![0usize; count];
    let mut ready: VecDeque<usize> = sources.iter().copied().collect();
    while let Some(from) = ready.pop_front() {
        for &to in &readers[from] {
            rows[to] = rows[to].max(rows[from] + 1);
            missing[to] -= 1;
            if missing[to] == 0 {
                ready.push_back(to);
            }
        }
    }
    for source in sources {
        if let Some(first) = readers[source].iter().map(|&to| rows[to]).min() {
            rows[source] = first.saturating_sub(1);
        }
    }
    rows
}

/// Places the boxes of a row side by side, sorted by the middle of what they are joined with.
fn spread(row: &mut [usize], boxes: &mut [Area], near: &[Vec<usize>]) {
    let wanted = |index: usize| match near[index].len() {
        0 => boxes[index].middle(),
        count => near[index].iter().map(|&other| boxes[other].middle()).sum::<f64>() / count as f64,
    };
    let mut placed: Vec<(f64, usize)> = row.iter().map(|&index| (wanted(index), index)).collect();
    // Stable, so that ties keep their order.
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = |all: &[(f64, usize)]| {
        all.iter().map(|(middle, _)| middle).sum::<f64>() / all.len().max(1) as f64
    };
    let center = mean(&placed);
    let mut edge = f64::NEG_INFINITY;
    for (middle, index) in &mut placed {
        let Area { width, anchor, .. } = boxes[*index];
        *middle = middle.max(edge + anchor);
        edge = *middle - anchor + width + GAP;
    }
    // What was pushed to the right comes back to the middle.
    let shift = center - mean(&placed);
    for (position, (middle, index)) in placed.into_iter().enumerate() {
        boxes[index].x = middle + shift - boxes[index].anchor;
        row[position] = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_lead_down_and_boxes_do_not_overlap() {
        let mut random = ir_core::Random::new(1);
        for count in [1usize, 2, 30, 200] {
            let size = |random: &mut ir_core::Random| 10.0 + random.below(90) as f64;
            let mut boxes: Vec<Area> = (0..count)
                .map(|_| Area {
                    width: size(&mut random),
                    height: size(&mut random),
                    ..Area::default()
                })
                .collect();
            let mut edges = Vec::new();
            for to in 1..count {
                for _ in 0..random.below(3) {
                    edges.push((random.below(to), to));
                }
            }
            let (width, height) = place(&mut boxes, &edges);
            for &(from, to) in &edges {
                assert!(boxes[from].y + boxes[from].height < boxes[to].y);
            }
            for (index, a) in boxes.iter().enumerate() {
                assert!(a.x >= 0.0 && a.x + a.width <= width + 1.0);
                assert!(a.y >= 0.0 && a.y + a.height <= height + 1.0);
                for b in &boxes[..index] {
                    let apart = a.x + a.width <= b.x + 1.0
                        || b.x + b.width <= a.x + 1.0
                        || a.y + a.height <= b.y
                        || b.y + b.height <= a.y;
                    assert!(apart, "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn a_cycle_is_placed_all_the_same() {
        let mut boxes = [Area { width: 10.0, height: 10.0, ..Area::default() }; 3];
        place(&mut boxes, &[(0, 1), (1, 2), (2, 1)]);
        assert_eq!(boxes[0].y, 0.0);
    }
}
