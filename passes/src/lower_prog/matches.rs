//! Matches: from patterns to switches on one constructor at a time (Maranget, 2008).

use ir_core::{
    BlockId, DType, InsertPoint, Loc, OpFields, OpParts, Symbol, TensorData, Type, ValueId,
};
use relay::language::Pattern;

use super::function::Writer;
use crate::lower_te::problems::Problem;

/// Values that became of one, and its type in Relay.
type Part = (Vec<ValueId>, Type);

/// What a match gives.
pub(super) struct Clauses {
    pub(super) loc: Loc,
    pub(super) types: Vec<Type>,
}

/// What was chosen from.
pub(super) struct Chosen {
    /// What the match gives, where there was something to choose.
    pub(super) values: Vec<ValueId>,
    /// Where clauses come.
    pub(super) leaves: Vec<Leaf>,
    /// Whether there was nothing to choose: the only leaf takes the place of the match.
    pub(super) is_inline: bool,
}

/// A place for a clause.
pub(super) struct Leaf {
    pub(super) clause: usize,
    pub(super) to: BlockId,
    /// What its variables are.
    pub(super) bound: Vec<Vec<ValueId>>,
}

/// A clause that may still fit.
#[derive(Clone)]
struct Row<'p> {
    clause: usize,
    /// What must fit yet: constructors only. With the number of the first variable in each.
    tests: Vec<(Part, &'p Pattern, usize)>,
    bound: Vec<Vec<ValueId>>,
}

/// The most places that the clauses of a match may come to, for each clause.
const MOST_COPIES: usize = 100;

impl Clauses {
    /// Chooses among the clauses with `patterns` for `whole`, at the end of `to`.
    pub(super) fn choose(
        &self,
        writer: &mut Writer<'_, '_>,
        whole: Part,
        patterns: &[Pattern],
        to: BlockId,
    ) -> Result<Chosen, Problem> {
        let mut rows = Vec::with_capacity(patterns.len());
        for (clause, pattern) in patterns.iter().enumerate() {
            let bound = vec![Vec::new(); pattern.variables()];
            let mut row = Row { clause, tests: Vec::new(), bound };
            row.add(writer, whole.clone(), pattern, 0)?;
            rows.push(row);
        }
        let mut chosen = Chosen { values: Vec::new(), leaves: Vec::new(), is_inline: false };
        let mut pending = vec![(to, rows)];
        let mut is_first = true;
        while let Some((block, rows)) = pending.pop() {
            match rows.first() {
                None if is_first => chosen.values = self.never(writer, block),
                None => self.fail(writer, block),
                Some(row) if row.tests.is_empty() => {
                    let Row { clause, bound, .. } = row.clone();
                    chosen.leaves.push(Leaf { clause, to: block, bound });
                    chosen.is_inline = is_first;
                }
                Some(_) => {
                    let values = self.switch(writer, block, rows, &mut pending)?;
                    match is_first {
                        true => chosen.values = values,
                        false => {
                            let name = prog::Yield::<ValueId>::NAME;
                            writer.insert(block, OpParts::new(name, &values, &[]).at(self.loc));
                        }
                    }
                }
            }
            if chosen.leaves.len() > MOST_COPIES * (patterns.len() + 1) {
                return Err(Problem::Form("a match whose patterns overlap in so many ways"));
            }
            is_first = false;
        }
        Ok(chosen)
    }

    /// Ends `block`, since no clause fits.
    fn fail(&self, writer: &mut Writer<'_, '_>, block: BlockId) {
        let message = "no clause of the match fits".to_string();
        let attrs = OpFields::<ValueId>::attrs(&prog::Fail { message });
        let name = <prog::Fail as OpFields<ValueId>>::NAME;
        writer.insert(block, OpParts::new(name, &[], &[]).attrs(attrs).at(self.loc));
    }

    /// What a match without clauses gives: values that never are, so that something can follow.
    fn never(&self, writer: &mut Writer<'_, '_>, block: BlockId) -> Vec<ValueId> {
        let value =
            TensorData::from_bytes(DType::BOOL, &[], vec![1]).expect("a scalar is one byte");
        let (ty, place) = (value.ty(), InsertPoint::End(block));
        let condition = [writer.new.add(place, self.loc, &prog::Constant { value }, ty)];
        let parts = OpParts::new(prog::If::<ValueId>::NAME, &condition, &self.types).regions(2);
        let branches = writer.insert(block, parts.at(self.loc));
        for block in writer.region_blocks(branches) {
            self.fail(writer, block);
        }
        writer.new.results(branches).collect()
    }

    /// Asks for the constructor of what the first row tests first. What comes in its blocks is added
    /// to `pending`.
    fn switch<'p>(
        &self,
        writer: &mut Writer<'_, '_>,
        block: BlockId,
        rows: Vec<Row<'p>>,
        pending: &mut Vec<(BlockId, Vec<Row<'p>>)>,
    ) -> Result<Vec<ValueId>, Problem> {
        let ((tested, ty), ..) = &rows[0].tests[0];
        let (data, ty) = (tested[0], *ty);
        let mut tags: Vec<(usize, Symbol)> = Vec::new();
        for name in rows.iter().filter_map(|row| row.constructor(data)) {
            let found = writer.lowering.data.constructor(ty, name);
            let (tag, ..) = found.ok_or(Problem::Data(ty))?;
            if !tags.contains(&(tag, name)) {
                tags.push((tag, name));
            }
        }
        tags.sort_unstable_by_key(|(tag, _)| *tag);
        let has_rest = tags.len() < writer.lowering.data.constructors(ty);
        let regions = tags.len() + usize::from(has_rest);
        let numbers = tags.iter().map(|(tag, _)| *tag as i64).collect();
        let attrs = prog::Switch { data, tags: numbers }.attrs();
        let name = prog::Switch::<ValueId>::NAME;
        let operands = [data];
        let parts = OpParts::new(name, &operands, &self.types).attrs(attrs).regions(regions);
        let switch = writer.insert(block, parts.at(self.loc));
        let blocks = writer.region_blocks(switch);
        let mut inner = Vec::new();
        for ((_, name), &block) in tags.iter().zip(&blocks) {
            let found = writer.lowering.data.constructor(ty, *name);
            let (_, source, flat) = found.ok_or(Problem::Data(ty))?;
            let (source, flat) = (source.to_vec(), flat.to_vec());
            let mut values: Vec<ValueId> =
                flat.iter().map(|ty| writer.new.add_block_arg(block, *ty)).collect();
            let mut parts: Vec<Part> = Vec::with_capacity(source.len());
            for ty in source {
                let count = writer.lowering.flat(ty)?.len();
                let rest = values.split_off(count);
                parts.push((std::mem::replace(&mut values, rest), ty));
            }
            let mut fitting = Vec::new();
            for row in &rows {
                if row.constructor(data).is_none_or(|other| other == *name) {
                    fitting.push(row.clone().opened(writer, data, &parts)?);
                }
            }
            inner.push((block, fitting));
        }
        if has_rest {
            let rest = rows.into_iter().filter(|row| row.constructor(data).is_none()).collect();
            inner.push((blocks[tags.len()], rest));
        }
        pending.extend(inner.into_iter().rev());
        Ok(writer.new.results(switch).collect())
    }
}

impl<'p> Row<'p> {
    /// Adds what `pattern` tests of `part`; its first variable has the number `first`.
    fn add(
        &mut self,
        writer: &mut Writer<'_, '_>,
        part: Part,
        pattern: &'p Pattern,
        first: usize,
    ) -> Result<(), Problem> {
        let mut pending = vec![(part, pattern, first)];
        while let Some(((mut values, ty), pattern, first)) = pending.pop() {
            match pattern {
                Pattern::Wildcard => {}
                Pattern::Variable => self.bound[first] = values,
                Pattern::Constructor(..) => self.tests.push(((values, ty), pattern, first)),
                Pattern::Tuple(fields) => {
                    let types = ty.as_tuple().ok_or(Problem::Data(ty))?;
                    let mut parts = Vec::with_capacity(fields.len());
                    let mut first = first;
                    for (field, ty) in fields.iter().zip(types) {
                        let count = writer.lowering.flat(*ty)?.len();
                        let rest = values.split_off(count);
                        parts.push(((std::mem::replace(&mut values, rest), *ty), field, first));
                        first += field.variables();
                    }
                    pending.extend(parts.into_iter().rev());
                }
            }
        }
        Ok(())
    }

    /// The constructor that must have made `data`, if one must.
    fn constructor(&self, data: ValueId) -> Option<Symbol> {
        let test = self.tests.iter().find(|((values, _), ..)| values[..] == [data]);
        match test {
            Some((_, Pattern::Constructor(name, _), _)) => Some(*name),
            _ => None,
        }
    }

    /// This row once it is known that `data` was made of `parts`, as it asks for.
    fn opened(
        mut self,
        writer: &mut Writer<'_, '_>,
        data: ValueId,
        parts: &[Part],
    ) -> Result<Row<'p>, Problem> {
        let place = self.tests.iter().position(|((values, _), ..)| values[..] == [data]);
        let Some(place) = place else { return Ok(self) };
        let (_, pattern, mut first) = self.tests.remove(place);
        if let Pattern::Constructor(_, fields) = pattern {
            for (part, field) in parts.iter().zip(fields) {
                self.add(writer, part.clone(), field, first)?;
                first += field.variables();
            }
        }
        Ok(self)
    }
}
