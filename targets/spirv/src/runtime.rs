//! Running shaders on a Vulkan device: memory is planned and commands are recorded once per kernel that
//! is called; a program is one list of commands.

mod vulkan;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ir_core::{Diagnostic, Diagnostics, Module, Symbol, Type, Verified};
use prog::operators::Operators;
use rustc_hash::FxHashMap;
use target_core::calls::{Calls, Place, Site};
use target_core::gpu::launches::is_list;
use target_core::{Buffer, Executable, Gpu, Kernel};
use te::loops::{KERNEL, outputs, parameters};

use crate::codegen::{Shader, shaders};
use vulkan::{Command, Commands, Device, MOST_TIMES, Memory, Part, Pipeline, Residence};

/// The kernels of a module on a device.
pub struct Loaded {
    kernels: Vec<Kernel>,
    /// What each kernel calls: itself, where it is a launch.
    calls: Vec<Calls>,
    shaders: FxHashMap<Symbol, Shader>,
    /// Which parameters of a kernel stay as they are.
    kept: FxHashMap<String, Range<usize>>,
    state: Mutex<State>,
}

/// The device, and what was made ready on it.
struct State {
    device: Device,
    pipelines: FxHashMap<Symbol, Pipeline>,
    prepared: FxHashMap<String, Prepared>,
}

/// A kernel that is ready to be called.
struct Prepared {
    /// Where each parameter lies for this program.
    params: Vec<Part>,
    /// Copies what stays as it is, until that was done.
    keep: Option<Commands>,
    run: Commands,
    /// What a call does, one thing after the other; and the same with the times of launches.
    commands: Vec<Command>,
    timed: Option<Commands>,
}

fn buffer_bytes(ty: Type) -> Option<u64> {
    let tensor = ty.as_tensor()?;
    let bytes = ir_core::tensor::tensor_bytes(&tensor.known_shape()?, tensor.dtype)?;
    u64::try_from(bytes).ok()
}

impl Loaded {
    /// The kernels of `module` on the first device whose name contains `wanted`, if that is given.
    ///
    /// # Errors
    /// `E0902` for what shaders cannot express, `E0914` where there is no device, `E0915` where the
    /// device cannot run the kernels.
    pub fn new(
        module: Verified<'_, Module>,
        gpu: &Gpu,
        wanted: Option<&str>,
    ) -> Result<Loaded, Diagnostics> {
        let shaders = shaders(module, gpu)?;
        let module = module.get();
        let device = Device::open(wanted)?;
        let (mut kernels, mut calls) = (Vec::new(), Vec::new());
        for (name, item) in module.items.iter().filter(|(_, item)| item.signature.op == KERNEL) {
            let params = parameters(&item.signature).to_vec();
            let body = item.body.as_deref().expect("shaders have bodies, and lists, too");
            calls.push(match is_list(body) {
                true => Calls::of_body(body),
                false => {
                    let places = (0..params.len()).map(Place::Param).collect();
                    let site = Site { kernel: *name, places, loc: ir_core::Loc::UNKNOWN };
                    Calls { sites: vec![site], ..Calls::default() }
                }
            });
            kernels.push(Kernel {
                name: name.to_string(),
                symbol: name.to_string(),
                names: (0..params.len()).map(|index| format!("p{index}")).collect(),
                params,
                outputs: outputs(&item.signature),
                workspace: 0,
            });
        }
        let shaders = shaders.into_iter().map(|shader| (shader.kernel, shader)).collect();
        let (pipelines, prepared) = (FxHashMap::default(), FxHashMap::default());
        let state = Mutex::new(State { device, pipelines, prepared });
        let loaded = Loaded { kernels, calls, shaders, kept: FxHashMap::default(), state };
        loaded.check()?;
        Ok(loaded)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A call that panicked left the device idle, or it is lost.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the device can run every kernel, before anything runs.
    fn check(&self) -> Result<(), Diagnostics> {
        let state = self.state();
        let device = &state.device;
        let limits = device.limits();
        let mut errors = Diagnostics::new();
        let mut refuse = |kernel: Symbol, what: String| {
            let message = format!("`{}` cannot run `@{kernel}`: {what}", device.name());
            errors.push(Diagnostic::error("E0915", message));
        };
        let mut kernels: Vec<&Shader> = self.shaders.values().collect();
        kernels.sort_by_key(|shader| shader.kernel.as_str());
        for shader in kernels {
            let kernel = shader.kernel;
            for capability in &shader.capabilities {
                if !device.has(*capability) {
                    refuse(kernel, format!("it has no capability {}", capability.name()));
                }
            }
            let bindings = shader.bindings.iter().filter(|bound| **bound).count();
            if bindings > limits.bindings as usize {
                let most = limits.bindings;
                refuse(kernel, format!("{bindings} buffers, and it takes {most} at most"));
            }
            let exceeds = |count: &[i64; 3], most: &[u32; 3]| {
                count.iter().zip(most).any(|(count, most)| *count > i64::from(*most))
            };
            let threads: i64 = shader.launch.threads.iter().product();
            if exceeds(&shader.launch.threads, &limits.threads)
                || threads > i64::from(limits.block_threads)
            {
                let most = limits.block_threads;
                refuse(kernel, format!("blocks of {threads} threads, of which it has {most}"));
            }
            if shader.shared > limits.shared as usize {
                let (bytes, most) = (shader.shared, limits.shared);
                refuse(kernel, format!("{bytes} bytes of shared memory, of which it has {most}"));
            }
            if exceeds(&shader.launch.blocks, &limits.blocks) {
                let (blocks, most) = (shader.launch.blocks, limits.blocks);
                refuse(kernel, format!("{blocks:?} blocks, of which it has {most:?}"));
            }
        }
        for kernel in &self.kernels {
            for ty in &kernel.params {
                let bytes = buffer_bytes(*ty).unwrap_or(u64::MAX);
                if bytes > limits.buffer {
                    let most = limits.buffer;
                    let what = format!("a buffer of {bytes} bytes, and it takes {most} at most");
                    refuse(Symbol::new(&kernel.name), what);
                }
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Which of the kernels is `name`.
    fn find(&self, name: &str) -> Result<usize, Diagnostics> {
        let place = self.kernels.iter().position(|kernel| kernel.name == name);
        let missing = || Diagnostic::error("E0907", format!("no kernel `@{name}`"));
        Ok(place.ok_or_else(missing)?)
    }

    /// Plans the memory of kernel `index`, and records what a call does.
    fn prepare(&self, state: &mut State, index: usize) -> Result<Prepared, Diagnostics> {
        let (kernel, calls) = (&self.kernels[index], &self.calls[index]);
        if calls.is_opaque {
            let message = format!("`@{}` does more than calling kernels", kernel.name);
            return Err(Diagnostic::error("E0902", message).into());
        }
        let alignment = state.device.limits().alignment.max(16);
        let mut arena = Arena { end: 0, alignment };
        let params = kernel.params.iter().map(|ty| arena.take(buffer_bytes(*ty).unwrap_or(0)));
        let params: Vec<(u64, u64)> = params.collect();
        let constants = calls.constants.iter();
        let constants: Vec<(u64, u64)> =
            constants.map(|data| arena.take(data.bytes().len() as u64)).collect();
        let on_host = arena.end;
        let locals = arena.locals(calls);
        let too_large = |bytes: u64, most: u64| {
            let message = format!(
                "`@{}` needs {bytes} bytes of memory, and `{}` gives {most} at most",
                kernel.name,
                state.device.name()
            );
            Diagnostics::from(Diagnostic::error("E0915", message))
        };
        let limits = state.device.limits();
        let most = limits.allocation.min(limits.memory);
        if arena.end > most {
            return Err(too_large(arena.end, most));
        }
        let memory = state.device.memory(arena.end, Residence::Device)?;
        let staging = state.device.memory(on_host, Residence::Host)?;
        let part = |memory: Memory, (offset, bytes): (u64, u64)| Part { memory, offset, bytes };
        for (data, place) in calls.constants.iter().zip(&constants) {
            state.device.bytes(part(staging, *place)).copy_from_slice(data.bytes());
        }

        let copy = |place: (u64, u64)| Command::Copy(part(staging, place), part(memory, place));
        let is_some = |place: &(u64, u64)| place.1 > 0;
        // Most kernels keep nothing.
        let kept = self.kept.get(&kernel.name).cloned().unwrap_or_default();
        let keep = params[kept.clone()].iter().chain(&constants).copied().filter(is_some);
        let keep: Vec<Command> = keep.map(copy).collect();
        let results = params.len() - kernel.outputs;
        let inputs = (0..results).filter(|index| !kept.contains(index)).map(|index| params[index]);
        let mut commands: Vec<Command> = inputs.filter(is_some).map(copy).collect();
        commands.push(Command::Barrier);
        for site in &calls.sites {
            let shader = &self.shaders[&site.kernel];
            let pipeline = pipeline(state, shader)?;
            if is_empty(shader) {
                continue;
            }
            let place = |place: &Place| match *place {
                Place::Param(index) => params[index],
                Place::Local(index) => locals[index],
                Place::Constant(index) => constants[index],
            };
            let bound = site.places.iter().enumerate().zip(&shader.bindings);
            let bound = bound.filter(|(_, bound)| **bound).map(|((index, at), _)| {
                let (offset, bytes) = place(at);
                (index as u32, Part { memory, offset, bytes: bytes.max(4) })
            });
            let blocks = shader.launch.blocks.map(|blocks| blocks as u32);
            commands.push(Command::Launch(pipeline, bound.collect(), blocks));
            commands.push(Command::Barrier);
        }
        let given = params[results..].iter().copied().filter(is_some);
        commands.extend(given.map(|at| Command::Copy(part(memory, at), part(staging, at))));
        commands.push(Command::Barrier);
        let keep = match keep.is_empty() {
            true => None,
            false => Some(state.device.record(&keep)?),
        };
        let run = state.device.record(&commands)?;
        let params = params.into_iter().map(|place| part(staging, place)).collect();
        Ok(Prepared { params, keep, run, commands, timed: None })
    }

    /// Runs kernel `name`; with `timed`, the seconds of each of its launches, where the device has a
    /// clock for as many.
    fn run(
        &self,
        name: &str,
        buffers: &mut [Buffer],
        timed: bool,
    ) -> Result<Option<Vec<f64>>, Diagnostics> {
        let index = self.find(name)?;
        let kernel = &self.kernels[index];
        let sizes = kernel.params.iter().map(|ty| buffer_bytes(*ty).unwrap_or(u64::MAX));
        if buffers.len() != kernel.params.len()
            || !buffers.iter().zip(sizes).all(|(buffer, bytes)| buffer.len() as u64 == bytes)
        {
            let types: Vec<String> = kernel.params.iter().map(Type::to_string).collect();
            let message = format!("`@{name}` takes buffers of types {}", types.join(", "));
            return Err(Diagnostic::error("E0907", message).into());
        }
        let mut state = self.state();
        let state = &mut *state;
        if !state.prepared.contains_key(name) {
            let prepared = self.prepare(state, index)?;
            state.prepared.insert(name.to_string(), prepared);
        }
        let State { device, prepared, .. } = state;
        let prepared = prepared.get_mut(name).expect("it was made ready");
        let commands = match timed {
            false => prepared.run,
            true if !prepared.can_be_timed(device) => return Ok(None),
            true => prepared.timed(device)?,
        };
        let kept = self.kept.get(name).cloned().unwrap_or_default(); // Most kernels keep nothing.
        let results = buffers.len() - kernel.outputs;
        let keep = prepared.keep.take();
        for (index, (buffer, part)) in buffers.iter().zip(&prepared.params).enumerate() {
            let is_new = !kept.contains(&index) || keep.is_some();
            if index < results && is_new && part.bytes > 0 {
                device.bytes(*part).copy_from_slice(buffer.as_ref());
            }
        }
        if let Some(keep) = keep {
            device.run(keep)?;
        }
        device.run(commands)?;
        for (buffer, part) in buffers.iter_mut().zip(&prepared.params).skip(results) {
            if part.bytes > 0 {
                buffer.as_mut().copy_from_slice(device.bytes(*part));
            }
        }
        timed.then(|| prepared.times(device, &self.calls[index], &self.shaders)).transpose()
    }
}

impl Prepared {
    fn launches(&self) -> usize {
        self.commands.iter().filter(|command| matches!(command, Command::Launch(..))).count()
    }

    /// Whether `device` has a clock for as many launches.
    fn can_be_timed(&self, device: &Device) -> bool {
        device.limits().tick.is_some() && self.launches() < MOST_TIMES as usize
    }

    /// What a call does, and the time before the first launch and after each.
    fn timed(&mut self, device: &mut Device) -> Result<Commands, Diagnostics> {
        if let Some(known) = self.timed {
            return Ok(known);
        }
        let mut commands = Vec::new();
        let mut count = 0;
        for command in &self.commands {
            let is_launch = matches!(command, Command::Launch(..));
            if is_launch && count == 0 {
                commands.push(Command::Time(0));
            }
            commands.push(command.clone());
            if is_launch {
                count += 1;
                // The barrier behind it lets no later launch begin before.
                commands.push(Command::Time(count));
            }
        }
        let timed = device.record(&commands)?;
        Ok(*self.timed.insert(timed))
    }

    /// The seconds of each of `calls` in the last run; 0 for those that have nothing to do.
    fn times(
        &self,
        device: &mut Device,
        calls: &Calls,
        shaders: &FxHashMap<Symbol, Shader>,
    ) -> Result<Vec<f64>, Diagnostics> {
        let launches = self.launches() as u32;
        let times = if launches == 0 { vec![] } else { device.times(launches + 1)? };
        let mut spans = times.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0) / 1e9);
        let seconds = calls.sites.iter().map(|site| match is_empty(&shaders[&site.kernel]) {
            true => 0.0,
            false => spans.next().expect("each launch has its time"),
        });
        Ok(seconds.collect())
    }
}

/// Whether `shader` runs on no thread.
fn is_empty(shader: &Shader) -> bool {
    shader.launch.blocks.contains(&0) || shader.launch.threads.contains(&0)
}

/// Memory from which parts are taken, one behind the other.
struct Arena {
    end: u64,
    alignment: u64,
}

impl Arena {
    /// Where `bytes` bytes start, and how many they are.
    fn take(&mut self, bytes: u64) -> (u64, u64) {
        let start = self.end.next_multiple_of(self.alignment);
        // Whole words, so that narrow elements are read with their neighbours.
        self.end = start + bytes.max(4).next_multiple_of(4);
        (start, bytes)
    }

    /// Where the buffers that `calls` need lie: where they were planned, or each apart.
    fn locals(&mut self, calls: &Calls) -> Vec<(u64, u64)> {
        let bytes = |ty: Type| buffer_bytes(ty).unwrap_or(0);
        let offsets = calls.locals.iter().map(|local| u64::try_from(local.offset?).ok());
        let aligned = |offset: u64| offset.is_multiple_of(self.alignment);
        let planned: Option<Vec<u64>> = offsets.collect();
        match planned.filter(|offsets| offsets.iter().copied().all(aligned)) {
            Some(offsets) => {
                let start = self.end.next_multiple_of(self.alignment);
                let places = calls.locals.iter().zip(offsets);
                let places: Vec<(u64, u64)> =
                    places.map(|(local, offset)| (start + offset, bytes(local.ty))).collect();
                let ends = places.iter().map(|(at, bytes)| at + bytes.max(&4).next_multiple_of(4));
                self.end = ends.max().unwrap_or(self.end);
                places
            }
            None => calls.locals.iter().map(|local| self.take(bytes(local.ty))).collect(),
        }
    }
}

/// The pipeline of `shader`, which is made once.
fn pipeline(state: &mut State, shader: &Shader) -> Result<Pipeline, Diagnostics> {
    if let Some(known) = state.pipelines.get(&shader.kernel) {
        return Ok(*known);
    }
    let (name, bindings) = (shader.kernel.as_str(), shader.bindings.len() as u32);
    let pipeline = state.device.pipeline(&shader.words, name, bindings)?;
    state.pipelines.insert(shader.kernel, pipeline);
    Ok(pipeline)
}

impl Executable for Loaded {
    fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    fn keep(&mut self, kernel: &str, parameters: Range<usize>) {
        self.kept.insert(kernel.to_string(), parameters);
    }

    fn call(&self, name: &str, buffers: &mut [Buffer]) -> Result<(), Diagnostics> {
        self.run(name, buffers, false).map(drop)
    }

    fn call_timed(
        &self,
        name: &str,
        buffers: &mut [Buffer],
    ) -> Result<Option<Vec<f64>>, Diagnostics> {
        self.run(name, buffers, true)
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
