//! Operators on tensors of unknown extents, by kernels that are told these.

use std::rc::Rc;

use ir_core::fingerprint::fingerprint;
use ir_core::{
    BlockId, Body, DType, InsertPoint, Loc, OpFields, OpId, OpParts, TensorData, Type, ValueId,
};
use te::compute::parts::{Part, Source};
use te::compute::{ComputeBuilder, Tensor};

use super::function::Writer;
use crate::extents::is_open;
use crate::lower_te::function::Function;
use crate::lower_te::problems::Problem;
use crate::open_kernels::{Alone, OpenKernels, Written};

/// What kernels gave, and where to write what is done for other extents than they are written for.
pub(super) struct Given {
    pub(super) values: Vec<ValueId>,
    pub(super) otherwise: Option<BlockId>,
}

impl Writer<'_, '_> {
    /// The kernels for the operations `ops` of `body`, of which the last one gives `result`, on operands
    /// of these types.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn open_kernels(
        &mut self,
        body: &Body,
        ops: &[OpId],
        (params, values): (&[(ValueId, Type)], &[(ValueId, Type)]),
        constants: &[(ValueId, TensorData)],
        result: ValueId,
    ) -> Result<Rc<[OpenKernels]>, Rc<str>> {
        if values.is_empty() && !params.iter().any(|(_, ty)| is_open(*ty)) {
            return Err("its result has as many elements as the data say".into());
        }
        if self.is_plain {
            return Err("its operands have other extents than its kernel is written for".into());
        }
        let alone = Alone::of(body, ops, (params, values), constants, result);
        let alone = alone.ok_or("an operand of it is no tensor")?;
        let registry = self.lowering.registry;
        let known = self.lowering.open.entry((fingerprint(alone.body()), values.len()));
        let kernels = known.or_insert_with(|| match alone.kernels(registry) {
            Ok(kernels) => Ok(kernels.into()),
            Err(reason) => Err(reason.into()),
        });
        kernels.clone()
    }

    /// The numbers that decide the extents of `kernels` on `inputs`.
    fn numbers(
        &mut self,
        kernels: &OpenKernels,
        (inputs, values): (&[ValueId], &[ValueId]),
        to: BlockId,
        loc: Loc,
    ) -> Vec<ValueId> {
        let index = Type::scalar(DType::INT64);
        let mut numbers = Vec::with_capacity(kernels.places.axes.len());
        for (input, axis) in &kernels.places.axes {
            if *input < kernels.places.tensors {
                let extent = prog::Extent { tensor: inputs[*input], axis: *axis as i64 };
                numbers.push(self.new.add(InsertPoint::End(to), loc, &extent, index));
            } else if *axis == 0 {
                // All elements of it follow.
                let value = values[input - kernels.places.tensors];
                numbers.extend(self.elements(value, to, loc));
            }
        }
        numbers
    }

    /// The elements of `value`, a scalar or vector of integers.
    pub(super) fn elements(&mut self, value: ValueId, to: BlockId, loc: Loc) -> Vec<ValueId> {
        let tensor = self.new.ty(value).as_tensor().expect("extents are in a tensor");
        let shape = tensor.known_shape().expect("there are so many of them");
        let mut builder = ComputeBuilder::new();
        let vector = builder.input("numbers", &shape, tensor.dtype);
        let count = shape.iter().product::<i64>();
        let elements: Vec<Tensor> = (0..count)
            .map(|place| {
                builder.compute("number", &[], |e, _| {
                    let place = e.index(place);
                    let places = [place];
                    let element = e.load(&vector, if shape.is_empty() { &[] } else { &places });
                    e.cast(element, DType::INT64)
                })
            })
            .collect();
        let item = builder.finish(&elements).expect("elements are numbers");
        let function = Function { name: "numbers".to_string(), item, constants: vec![] };
        let types = vec![Type::scalar(DType::INT64); elements.len()];
        self.scalars(function, vec![value], &types, to, loc)
    }

    /// Computes the first of `all` that is for the extents of `inputs`; the elements of `values` decide some, too.
    /// What it gives is of `types`.
    pub(super) fn sized(
        &mut self,
        all: &[OpenKernels],
        (inputs, values): (&[ValueId], &[ValueId]),
        types: &[Type],
        to: BlockId,
        loc: Loc,
    ) -> Given {
        let (first, others) = all.split_first().expect("there are kernels");
        let mut given = self.sized_by(first, (inputs.to_vec(), values), types, to, loc);
        for kernels in others {
            let Some(to) = given.otherwise else { break };
            let next = self.sized_by(kernels, (inputs.to_vec(), values), types, to, loc);
            self.yields(&next.values, to, loc);
            given.otherwise = next.otherwise;
        }
        given
    }

    /// Computes `kernels` of `inputs`.
    fn sized_by(
        &mut self,
        kernels: &OpenKernels,
        (mut inputs, values): (Vec<ValueId>, &[ValueId]),
        types: &[Type],
        to: BlockId,
        loc: Loc,
    ) -> Given {
        let index = Type::scalar(DType::INT64);
        let extents = self.numbers(kernels, (&inputs, values), to, loc);
        let known = kernels.extents().map(|function| {
            let results = te::loops::output_count(&function.item.signature).unwrap_or(0);
            let mut types = vec![index; results];
            if kernels.is_assumed() {
                types[0] = Type::scalar(DType::BOOL);
            }
            self.scalars(function, extents.clone(), &types, to, loc)
        });
        let mut known = known.unwrap_or_default().into_iter();
        let fits = kernels.is_assumed().then(|| known.next().expect("it says whether they fit"));
        let mut counts = Vec::with_capacity(kernels.counts.len());
        for formula in &kernels.counts {
            counts.push(match kernels.place(formula) {
                Some(place) => extents[place],
                None => known.next().expect("it gives the other counts"),
            });
        }
        let branches = fits.map(|fits| {
            let operands = [fits];
            let parts = OpParts::new(prog::If::<ValueId>::NAME, &operands, types).regions(2);
            let op = self.insert(to, parts.at(loc));
            (op, self.region_blocks(op))
        });
        let within = branches.as_ref().map_or(to, |(_, blocks)| blocks[0]);
        for value in &kernels.constants {
            let constant = prog::Constant { value: value.clone() };
            let ty = value.ty();
            inputs.push(self.new.add(InsertPoint::End(within), loc, &constant, ty));
        }
        let OpenKernels { name, parts, results, .. } = kernels;
        let values = self.parts(name, (parts, results), (&counts, &inputs), within, loc);
        let values = self.fit(&values, types, within, loc);
        match branches {
            None => Given { values, otherwise: None },
            Some((op, blocks)) => {
                self.yields(&values, within, loc);
                Given { values: self.new.results(op).collect(), otherwise: Some(blocks[1]) }
            }
        }
    }

    /// What `write` writes for `inputs`, where so many extents are `extents`, whatever these are.
    ///
    /// # Errors
    /// Where what it writes differs in more for other extents.
    pub(super) fn compute(
        &mut self,
        name: &str,
        inputs: &[ValueId],
        extents: &[ValueId],
        (to, loc): (BlockId, Loc),
        write: impl Fn(&mut ComputeBuilder, &[i64]) -> Vec<Tensor>,
    ) -> Result<Vec<ValueId>, Problem> {
        let Written { counts, parts, results } = Written::of(extents.len(), write)
            .map_err(|reason| Problem::Open(name.to_string(), reason))?;
        let counts: Vec<ValueId> = counts.into_iter().map(|count| extents[count]).collect();
        Ok(self.parts(name, (&parts, &results), (&counts, inputs), to, loc))
    }

    /// Computes `parts` of `counts` and `inputs`, and gives of what they give `results`. They are called `name`.
    pub(super) fn parts(
        &mut self,
        name: &str,
        (parts, results): (&[Part], &[Source]),
        (counts, inputs): (&[ValueId], &[ValueId]),
        to: BlockId,
        loc: Loc,
    ) -> Vec<ValueId> {
        let mut given: Vec<Vec<ValueId>> = Vec::with_capacity(parts.len());
        let find = |given: &[Vec<ValueId>], source: &Source| match *source {
            Source::Parameter(number) => inputs[number - counts.len()],
            Source::Part(part, result) => given[part][result],
        };
        for Part { item, inputs } in parts {
            let tensors = te::loops::buffer_types(&item.signature).expect("it is a function");
            let tensors = tensors[counts.len()..].to_vec();
            let first = inputs.len();
            let sources: Vec<ValueId> = inputs.iter().map(|source| find(&given, source)).collect();
            // What is assumed to have known extents has none of its own.
            let values: Vec<Type> = tensors.iter().map(|ty| prog::sized::value_type(*ty)).collect();
            let sources = self.fit(&sources, &values[..first], to, loc);
            let inputs: Vec<ValueId> = counts.iter().copied().chain(sources).collect();
            let results = values[first..].to_vec();
            let name = name.to_string();
            let function =
                self.lowering.add(Function { name, item: item.clone(), constants: vec![] });
            let sized = prog::Sized { function, tensors, inputs };
            let parts = OpParts::new(prog::Sized::<ValueId>::NAME, &sized.inputs, &results);
            let op = self.insert(to, parts.attrs(sized.attrs()).at(loc));
            given.push(self.new.results(op).collect());
        }
        results.iter().map(|source| find(&given, source)).collect()
    }

    /// Ends the block `to`, for extents that `kernels` are not written for, where there is one.
    pub(super) fn fails(&mut self, kernels: &[OpenKernels], to: Option<BlockId>, loc: Loc) {
        let (Some(to), Some(OpenKernels { name, .. })) = (to, kernels.first()) else { return };
        let message = format!("the extents of `{name}` are others than its kernel is written for");
        let fail = prog::Fail { message };
        let parts = OpParts::new(<prog::Fail as OpFields<ValueId>>::NAME, &[], &[]);
        self.insert(to, parts.attrs(OpFields::<ValueId>::attrs(&fail)).at(loc));
    }

    /// Ends the block `to` of a branch with `values`.
    pub(super) fn yields(&mut self, values: &[ValueId], to: BlockId, loc: Loc) {
        self.insert(to, OpParts::new(prog::Yield::<ValueId>::NAME, values, &[]).at(loc));
    }
}
