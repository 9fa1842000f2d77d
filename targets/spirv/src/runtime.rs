//! Running shaders on a Vulkan device: memory is planned and commands are recorded once per kernel that
//! is called; a program is one list of commands.

mod vulkan;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ir_core::{Diagnostic, Diagnostics, Module, Symbol, Type, Verified};
use prog::operators::Operators;
use rustc_hash::FxHashMap;
use target_core::calls::Calls;
use target_core::gpu::launches::calls_of;
use target_core::gpu::plan::{Part as Place, Plan, buffer_bytes};
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
        let alignment = state.device.limits().alignment.max(16);
        // Most kernels keep nothing.
        let kept = self.kept.get(&kernel.name).cloned().unwrap_or_default();
        let plan = Plan::new(&kernel.params, kept.clone(), calls, alignment);
        let plan = plan.expect("shaders have buffers of known extents");
        let (params, on_host) = (&plan.params, plan.outside);
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
        if plan.bytes > most {
            return Err(too_large(plan.bytes, most));
        }
        let memory = state.device.memory(plan.bytes, Residence::Device)?;
        let staging = state.device.memory(on_host, Residence::Host)?;
        let part = |memory: Memory, place: Place| {
            let Place { offset, bytes } = place;
            Part { memory, offset, bytes }
        };
        for (data, place) in calls.constants.iter().zip(&plan.constants) {
            state.device.bytes(part(staging, *place)).copy_from_slice(data.bytes());
        }

        let copy = |place: Place| Command::Copy(part(staging, place), part(memory, place));
        let is_some = |place: &Place| place.bytes > 0;
        let keep = params[kept.clone()].iter().chain(&plan.constants).copied().filter(is_some);
        let keep: Vec<Command> = keep.map(copy).collect();
        let results = params.len() - kernel.outputs;
        let inputs = (0..results).filter(|index| !kept.contains(index)).map(|index| params[index]);
        let mut commands: Vec<Command> = inputs.filter(is_some).map(copy).collect();
        commands.push(Command::Barrier);
        for site in &calls.sites {
            let shader = &self.shaders[&site.kernel];
            let pipeline = pipeline(state, shader)?;
            if shader.launch.is_empty() {
                continue;
            }
            let bound = site.places.iter().enumerate().zip(&shader.bindings);
            let bound = bound.filter(|(_, bound)| **bound).map(|((index, at), _)| {
                let Place { offset, bytes } = plan.part(*at);
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
        let params = params.iter().map(|place| part(staging, *place)).collect();
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
        let seconds =
            calls.sites.iter().map(|site| match shaders[&site.kernel].launch.is_empty() {
                true => 0.0,
                false => spans.next().expect("each launch has its time"),
            });
        Ok(seconds.collect())
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
