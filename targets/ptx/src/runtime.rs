//! Calls of kernels, on whatever runs entries: memory is found once per kernel that is called, and a
//! program is a list of launches.

mod driver;
mod interpreted;

use std::collections::hash_map::Entry as Known;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use ir_core::tensor::tensor_bytes;
use ir_core::{Diagnostic, Diagnostics, Module, Symbol, Type};
use prog::operators::Operators;
use rustc_hash::FxHashMap;
use target_core::calls::{Calls, Local, Place};
use target_core::gpu::launches::calls_of;
use target_core::{Buffer, Executable, Kernel};
use te::loops::{KERNEL, outputs, parameters};

use crate::codegen::Entry;
pub use driver::Driver;
pub use interpreted::Interpreted;

/// What runs entries on memory of its own. Addresses are those of the device.
pub trait Device: Send {
    /// `bytes` bytes, which stay until the device is gone.
    fn allocate(&mut self, bytes: usize) -> Result<u64, Diagnostics>;

    /// The buffers that a list of calls needs besides its parameters: where they were planned, in one
    /// piece of memory.
    fn locals(&mut self, locals: &[Local]) -> Result<Vec<u64>, Diagnostics> {
        let mut places = Vec::new();
        let mut end = 0;
        for local in locals {
            let start = match local.offset.and_then(|offset| usize::try_from(offset).ok()) {
                Some(offset) => offset,
                None => end,
            };
            end = end.max((start + bytes_of(local.ty)).next_multiple_of(ALIGNMENT));
            places.push(start as u64);
        }
        let base = self.allocate(end)?;
        Ok(places.into_iter().map(|place| base + place).collect())
    }

    /// Stores `bytes` from the address on.
    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<(), Diagnostics>;

    /// Reads `bytes` from the address on.
    fn download(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Diagnostics>;

    /// Says that nothing is stored from the address on any more.
    fn forget(&mut self, _address: u64) {}

    /// Starts `entry` with these addresses of its buffers. Launches run one after the other.
    fn launch(&mut self, entry: &Entry, buffers: &[u64]) -> Result<(), Diagnostics>;
}

/// Where buffers start on a device: at multiples of so many bytes.
pub const ALIGNMENT: usize = 256;

/// The kernels of a module on a device.
pub struct Loaded {
    kernels: Vec<Kernel>,
    /// What each kernel calls: itself, where it is a launch.
    calls: Vec<Calls>,
    entries: FxHashMap<Symbol, Entry>,
    /// Which parameters of a kernel stay as they are.
    kept: FxHashMap<String, Range<usize>>,
    state: Mutex<State>,
}

struct State {
    device: Box<dyn Device>,
    prepared: FxHashMap<usize, Prepared>,
}

/// The addresses of what a kernel works on.
struct Prepared {
    params: Vec<u64>,
    locals: Vec<u64>,
    constants: Vec<u64>,
    /// Whether what stays as it is was stored.
    has_kept: bool,
}

/// The bytes of a buffer of type `ty`, which the generator accepted.
fn bytes_of(ty: Type) -> usize {
    let tensor = ty.as_tensor();
    let bytes = tensor.and_then(|tensor| tensor_bytes(&tensor.known_shape()?, tensor.dtype));
    bytes.expect("buffers have known extents")
}

impl Loaded {
    /// The kernels of `module`, whose launches are `entries`, on `device`.
    ///
    /// # Errors
    /// `E0902` for buffers of unknown extents.
    pub fn new(
        module: &Module,
        entries: Vec<Entry>,
        device: Box<dyn Device>,
    ) -> Result<Loaded, Diagnostics> {
        let (mut kernels, mut calls) = (Vec::new(), Vec::new());
        for (name, item) in module.items.iter().filter(|(_, item)| item.signature.op == KERNEL) {
            let params = parameters(&item.signature).to_vec();
            let known =
                |ty: &Type| ty.as_tensor().is_some_and(|tensor| tensor.known_shape().is_some());
            if let Some(ty) = params.iter().find(|ty| !known(ty)) {
                let message = format!("`@{name}` takes a buffer of unknown extents ({ty})");
                return Err(Diagnostic::error("E0902", message).at(item.signature.span).into());
            }
            calls.push(calls_of(*name, item)?);
            kernels.push(Kernel {
                name: name.to_string(),
                symbol: name.to_string(),
                names: (0..params.len()).map(|index| format!("p{index}")).collect(),
                params,
                outputs: outputs(&item.signature),
                workspace: 0,
            });
        }
        let entries = entries.into_iter().map(|entry| (entry.kernel, entry)).collect();
        let state = Mutex::new(State { device, prepared: FxHashMap::default() });
        Ok(Loaded { kernels, calls, entries, kept: FxHashMap::default(), state })
    }

    /// Finds memory for kernel `index`.
    fn prepare(&self, device: &mut dyn Device, index: usize) -> Result<Prepared, Diagnostics> {
        let (kernel, calls) = (&self.kernels[index], &self.calls[index]);
        let mut params = Vec::new();
        for ty in &kernel.params {
            params.push(device.allocate(bytes_of(*ty))?);
        }
        let mut constants = Vec::new();
        for data in &calls.constants {
            let address = device.allocate(data.bytes().len())?;
            device.upload(address, data.bytes())?;
            constants.push(address);
        }
        Ok(Prepared { params, locals: device.locals(&calls.locals)?, constants, has_kept: false })
    }

    fn run(&self, name: &str, buffers: &mut [Buffer]) -> Result<(), Diagnostics> {
        let misfit = |message: String| Diagnostics::from(Diagnostic::error("E0907", message));
        let index = self.kernels.iter().position(|kernel| kernel.name == name);
        let index = index.ok_or_else(|| misfit(format!("no kernel `@{name}`")))?;
        let (kernel, calls) = (&self.kernels[index], &self.calls[index]);
        let fits = |(buffer, ty): (&Buffer, &Type)| buffer.len() == bytes_of(*ty);
        if buffers.len() != kernel.params.len() || !buffers.iter().zip(&kernel.params).all(fits) {
            let types: Vec<String> = kernel.params.iter().map(Type::to_string).collect();
            return Err(misfit(format!("`@{name}` takes buffers of types {}", types.join(", "))));
        }
        // A call that failed may have stored anything, but leaves nothing half done on this side.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { device, prepared, .. } = &mut *state;
        let device = device.as_mut();
        let prepared = match prepared.entry(index) {
            Known::Occupied(known) => known.into_mut(),
            Known::Vacant(free) => free.insert(self.prepare(device, index)?),
        };
        let results = buffers.len() - kernel.outputs;
        let kept = self.kept.get(name).cloned().unwrap_or_default(); // Most kernels keep nothing.
        for (number, (buffer, &address)) in buffers.iter().zip(&prepared.params).enumerate() {
            match number < results {
                true if prepared.has_kept && kept.contains(&number) => {}
                true => device.upload(address, buffer.as_ref())?,
                false => device.forget(address),
            }
        }
        prepared.has_kept = true;
        prepared.locals.iter().for_each(|address| device.forget(*address));
        for site in &calls.sites {
            let entry = &self.entries[&site.kernel];
            let address = |place: &Place| match *place {
                Place::Param(index) => prepared.params[index],
                Place::Local(index) => prepared.locals[index],
                Place::Constant(index) => prepared.constants[index],
            };
            let addresses: Vec<u64> = site.places.iter().map(address).collect();
            if !entry.launch.is_empty() {
                device.launch(entry, &addresses)?;
            }
        }
        for (buffer, &address) in buffers.iter_mut().zip(&prepared.params).skip(results) {
            device.download(address, buffer.as_mut())?;
        }
        Ok(())
    }
}

impl Executable for Loaded {
    fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    fn keep(&mut self, kernel: &str, parameters: Range<usize>) {
        self.kept.insert(kernel.to_string(), parameters);
    }

    fn call(&self, name: &str, buffers: &mut [Buffer]) -> Result<(), Diagnostics> {
        self.run(name, buffers)
    }

    fn call_in(
        &self,
        kernel: &str,
        _: &mut [Buffer],
        _: &mut Buffer,
        _: &mut dyn Operators,
    ) -> Result<(), Diagnostics> {
        let message = format!("`@{kernel}` is no whole program: devices run lists of kernels");
        Err(Diagnostic::error("E0907", message).into())
    }
}
