//! A Vulkan device: the only module that calls the driver, and the only one with `unsafe`.
//!
//! The loader of Vulkan is found when a program runs, so that nothing needs it to be built.
//!
//! # Why it is sound
//!
//! - Whatever is made of a [`Device`] it keeps until it is dropped, and gives out as a number
//!   ([`Memory`], [`Pipeline`], [`Commands`]); so no handle is used after it was destroyed. Before
//!   anything is destroyed, the device is idle.
//! - Whatever reaches the driver takes `&mut Device`, so that it is synchronized as Vulkan demands, and
//!   [`Device::run`] waits until the device has ended.
//! - Structures that are handed over live until the call returns: they are locals of the function that
//!   makes it.
//! - Memory that is mapped stays so, and is read and written as slices of bytes within its size, while
//!   nothing runs.
//! - What shaders read and write lies in their buffers: kernels are verified, and their code is written
//!   by this crate.
#![allow(unsafe_code, reason = "the module's documentation has the proof")]

use std::ffi::{CStr, CString};

use ash::{khr, vk};
use ir_core::{Diagnostic, Diagnostics};

use crate::instructions::Capability;

/// A device, and all that was made of it.
pub(super) struct Device {
    name: String,
    limits: Limits,
    capabilities: Vec<Capability>,
    memories: Vec<Allocation>,
    pipelines: Vec<Compiled>,
    recordings: Vec<Recording>,
    types: vk::PhysicalDeviceMemoryProperties,
    cache: vk::PipelineCache,
    pool: vk::CommandPool,
    fence: vk::Fence,
    timer: vk::QueryPool,
    queue: vk::Queue,
    device: ash::Device,
    // Last, since the device is one of it.
    _instance: Instance,
}

/// Vulkan, and the library that it is in.
struct Instance {
    instance: ash::Instance,
    _entry: ash::Entry,
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: what was made of it is gone: a device holds it in its last field.
        unsafe { self.instance.destroy_instance(None) };
    }
}

/// What a device can do.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Bytes of a buffer.
    pub(super) buffer: u64,
    /// Bytes of one allocation.
    pub(super) allocation: u64,
    /// Bytes of memory for buffers of shaders.
    pub(super) memory: u64,
    /// Buffers of a shader.
    pub(super) bindings: u32,
    /// Blocks of a launch, by axis.
    pub(super) blocks: [u32; 3],
    /// Threads of a block, by axis.
    pub(super) threads: [u32; 3],
    /// Threads of a block.
    pub(super) block_threads: u32,
    /// Bytes that a block shares.
    pub(super) shared: u32,
    /// Where buffers may start, in bytes.
    pub(super) alignment: u64,
    /// Nanoseconds of a tick of the device's clock; `None` where it has none.
    pub(super) tick: Option<f64>,
}

/// Memory of a device, or of this machine for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Memory(usize);

/// Where memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Residence {
    /// On the device, for shaders.
    Device,
    /// Where this program reads and writes it.
    Host,
}

/// A shader that is ready to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pipeline(usize);

/// What a device was told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Commands(usize);

/// A part of a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// Of what.
    pub(super) memory: Memory,
    /// Where it starts, in bytes.
    pub(super) offset: u64,
    /// How many bytes.
    pub(super) bytes: u64,
}

/// One thing to do.
#[derive(Clone, Debug)]
pub(super) enum Command {
    /// Copies a part to another one of the same size.
    Copy(Part, Part),
    /// Runs a shader on buffers, by binding, in so many blocks.
    Launch(Pipeline, Vec<(u32, Part)>, [u32; 3]),
    /// What follows sees what was done before.
    Barrier,
    /// Notes the time, as the number that is given.
    Time(u32),
}

/// The most times that commands may note.
pub(super) const MOST_TIMES: u32 = 8192;

struct Allocation {
    memory: vk::DeviceMemory,
    buffer: vk::Buffer,
    bytes: u64,
    /// Where it is in this process; null where it is not.
    mapped: *mut u8,
}

struct Compiled {
    pipeline: vk::Pipeline,
    layout: vk::PipelineLayout,
    set_layout: vk::DescriptorSetLayout,
}

struct Recording {
    buffer: vk::CommandBuffer,
    pool: vk::DescriptorPool,
}

// SAFETY: the mapped memory belongs to the device alone, and is reached through `&mut Device` only;
// handles may move between threads.
unsafe impl Send for Device {}

fn failure(call: &str, error: vk::Result) -> Diagnostics {
    let (code, message) = match error {
        vk::Result::ERROR_DEVICE_LOST => ("E0916", format!("the device was lost: {call}")),
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            ("E0915", format!("the device has too little memory: {call}"))
        }
        other => ("E0916", format!("{call} failed: {other}")),
    };
    Diagnostic::error(code, message).into()
}

fn no_device(message: &str) -> Diagnostics {
    Diagnostic::error("E0914", message.to_string())
        .help("install a Vulkan driver, such as Debian's `mesa-vulkan-drivers` and `libvulkan1`")
        .into()
}

impl Device {
    /// The first device with a queue for compute shaders whose name contains `wanted`, if that is given:
    /// graphics processors before processors. Errors where there is none.
    pub(super) fn open(wanted: Option<&str>) -> Result<Device, Diagnostics> {
        // SAFETY: the loader of Vulkan is trusted to be one.
        let entry = unsafe { ash::Entry::load() };
        let entry =
            entry.map_err(|error| no_device(&format!("there is no Vulkan loader: {error}")))?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures are locals.
        let instance = unsafe { entry.create_instance(&info, None) }
            .map_err(|error| no_device(&format!("Vulkan does not start: {error}")))?;
        Device::of_instance(Instance { instance, _entry: entry }, wanted)
    }

    fn of_instance(owner: Instance, wanted: Option<&str>) -> Result<Device, Diagnostics> {
        let instance = &owner.instance;
        // SAFETY: the instance is alive.
        let all = unsafe { instance.enumerate_physical_devices() }
            .map_err(|error| no_device(&format!("there is no Vulkan device: {error}")))?;
        let mut candidates: Vec<(i32, vk::PhysicalDevice, u32, String)> = Vec::new();
        for physical in all {
            // SAFETY: the handle comes from the instance.
            let (properties, families) = unsafe {
                (
                    instance.get_physical_device_properties(physical),
                    instance.get_physical_device_queue_family_properties(physical),
                )
            };
            let computes = |family: &vk::QueueFamilyProperties| {
                family.queue_flags.contains(vk::QueueFlags::COMPUTE)
            };
            let Some(family) = families.iter().position(computes) else { continue };
            let name = properties.device_name_as_c_str().unwrap_or(c"unnamed");
            let name = name.to_string_lossy().into_owned();
            if properties.api_version < vk::API_VERSION_1_1
                || !wanted.is_none_or(|wanted| name.contains(wanted))
            {
                continue;
            }
            let rank = match properties.device_type {
                vk::PhysicalDeviceType::DISCRETE_GPU => 0,
                vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
                vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
                _ => 3,
            };
            candidates.push((rank, physical, family as u32, name));
        }
        candidates.sort_by_key(|candidate| candidate.0);
        let Some((_, physical, family, name)) = candidates.into_iter().next() else {
            let message = match wanted {
                Some(wanted) => {
                    format!("there is no Vulkan 1.1 device with `{wanted}` in its name")
                }
                None => "there is no Vulkan 1.1 device".to_string(),
            };
            return Err(no_device(&message));
        };
        Device::of_physical(owner, physical, family, name)
    }

    fn of_physical(
        owner: Instance,
        physical: vk::PhysicalDevice,
        family: u32,
        name: String,
    ) -> Result<Device, Diagnostics> {
        let instance = &owner.instance;
        // SAFETY: the handle comes from the instance.
        let extensions = unsafe { instance.enumerate_device_extension_properties(physical) }
            .map_err(|error| failure("asking for extensions", error))?;
        let has = |wanted: &CStr| {
            extensions.iter().any(|one| one.extension_name_as_c_str() == Ok(wanted))
        };
        let mut bytes = vk::PhysicalDevice8BitStorageFeatures::default();
        let mut shorts = vk::PhysicalDevice16BitStorageFeatures::default();
        let mut halves = vk::PhysicalDeviceShaderFloat16Int8Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut shorts);
        let mut enabled: Vec<*const i8> = Vec::new();
        if has(khr::_8bit_storage::NAME) {
            features = features.push_next(&mut bytes);
            enabled.push(khr::_8bit_storage::NAME.as_ptr().cast());
        }
        if has(khr::shader_float16_int8::NAME) {
            features = features.push_next(&mut halves);
            enabled.push(khr::shader_float16_int8::NAME.as_ptr().cast());
        }
        // SAFETY: the chain is of locals.
        unsafe { instance.get_physical_device_features2(physical, &mut features) };
        let all = features.features;
        let wanted = vk::PhysicalDeviceFeatures::default()
            .shader_float64(all.shader_float64 != 0)
            .shader_int64(all.shader_int64 != 0)
            .shader_int16(all.shader_int16 != 0);
        let capabilities = [
            (Capability::Shader, true),
            (Capability::Float64, all.shader_float64 != 0),
            (Capability::Int64, all.shader_int64 != 0),
            (Capability::Int16, all.shader_int16 != 0),
            (Capability::Float16, halves.shader_float16 != 0),
            (Capability::StorageBuffer16BitAccess, shorts.storage_buffer16_bit_access != 0),
            (Capability::StorageBuffer8BitAccess, bytes.storage_buffer8_bit_access != 0),
        ];
        let mut limits = vk::PhysicalDeviceMaintenance3Properties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut limits);
        // SAFETY: the chain is of locals.
        let types = unsafe {
            instance.get_physical_device_properties2(physical, &mut properties);
            instance.get_physical_device_memory_properties(physical)
        };
        let properties = properties.properties.limits;
        let heaps = types.memory_heaps[..types.memory_heap_count as usize].iter();
        let local = heaps.filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        // SAFETY: the handle comes from the instance.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let has_clock = families[family as usize].timestamp_valid_bits > 0;
        let limits = Limits {
            buffer: properties.max_storage_buffer_range.into(),
            allocation: limits.max_memory_allocation_size,
            memory: local.map(|heap| heap.size).max().unwrap_or(0),
            bindings: properties.max_per_stage_descriptor_storage_buffers,
            blocks: properties.max_compute_work_group_count,
            threads: properties.max_compute_work_group_size,
            block_threads: properties.max_compute_work_group_invocations,
            shared: properties.max_compute_shared_memory_size,
            alignment: properties.min_storage_buffer_offset_alignment,
            tick: has_clock.then_some(f64::from(properties.timestamp_period)),
        };
        let mut bytes = vk::PhysicalDevice8BitStorageFeatures::default()
            .storage_buffer8_bit_access(bytes.storage_buffer8_bit_access != 0);
        let mut shorts = vk::PhysicalDevice16BitStorageFeatures::default()
            .storage_buffer16_bit_access(shorts.storage_buffer16_bit_access != 0);
        let mut halves = vk::PhysicalDeviceShaderFloat16Int8Features::default()
            .shader_float16(halves.shader_float16 != 0);
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&[1.0])];
        let mut info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&enabled)
            .enabled_features(&wanted)
            .push_next(&mut shorts);
        if has(khr::_8bit_storage::NAME) {
            info = info.push_next(&mut bytes);
        }
        if has(khr::shader_float16_int8::NAME) {
            info = info.push_next(&mut halves);
        }
        // SAFETY: the chain is of locals; names of extensions are static.
        let device = unsafe { instance.create_device(physical, &info, None) }
            .map_err(|error| failure("opening the device", error))?;
        // Whatever fails from here on, `Drop` destroys what was made: handles that are null are none.
        let mut made = Device {
            name,
            limits,
            capabilities: capabilities.iter().filter(|one| one.1).map(|one| one.0).collect(),
            memories: vec![],
            pipelines: vec![],
            recordings: vec![],
            types,
            cache: vk::PipelineCache::null(),
            pool: vk::CommandPool::null(),
            fence: vk::Fence::null(),
            timer: vk::QueryPool::null(),
            // SAFETY: the device was opened with a queue of this family.
            queue: unsafe { device.get_device_queue(family, 0) },
            device,
            _instance: owner,
        };
        made.start(family).map_err(|error| failure("preparing the device", error))?;
        Ok(made)
    }

    fn start(&mut self, family: u32) -> Result<(), vk::Result> {
        let pool = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        // SAFETY: the device is alive, and structures are locals.
        unsafe {
            self.cache = self.device.create_pipeline_cache(&<_>::default(), None)?;
            self.pool = self.device.create_command_pool(&pool, None)?;
            self.fence = self.device.create_fence(&<_>::default(), None)?;
            if self.limits.tick.is_some() {
                let info = vk::QueryPoolCreateInfo::default()
                    .query_type(vk::QueryType::TIMESTAMP)
                    .query_count(MOST_TIMES);
                self.timer = self.device.create_query_pool(&info, None)?;
            }
        }
        Ok(())
    }

    /// What it calls itself.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What it can do.
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether it has what shaders may ask for.
    pub(super) fn has(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// `bytes` bytes of memory. Errors where there are not so many.
    pub(super) fn memory(
        &mut self,
        bytes: u64,
        residence: Residence,
    ) -> Result<Memory, Diagnostics> {
        let bytes = bytes.max(4).next_multiple_of(4);
        let usage = match residence {
            Residence::Device => {
                vk::BufferUsageFlags::STORAGE_BUFFER
                    | vk::BufferUsageFlags::TRANSFER_SRC
                    | vk::BufferUsageFlags::TRANSFER_DST
            }
            Residence::Host => {
                vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST
            }
        };
        let what = format!("allocating {bytes} bytes");
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: the device is alive, and the structure a local.
        let buffer = unsafe { self.device.create_buffer(&info, None) }
            .map_err(|error| failure(&what, error))?;
        let (memory, mapped) = (vk::DeviceMemory::null(), std::ptr::null_mut());
        self.memories.push(Allocation { memory, buffer, bytes, mapped });
        // SAFETY: the buffer is alive.
        let needs = unsafe { self.device.get_buffer_memory_requirements(buffer) };
        let flags = match residence {
            Residence::Device => vk::MemoryPropertyFlags::DEVICE_LOCAL,
            Residence::Host => {
                vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT
            }
        };
        let kinds = &self.types.memory_types[..self.types.memory_type_count as usize];
        let fits = |flags| {
            kinds.iter().enumerate().position(|(index, kind)| {
                needs.memory_type_bits >> index & 1 == 1 && kind.property_flags.contains(flags)
            })
        };
        // Every device has some memory for buffers, and some that is coherent.
        let kind = fits(flags).or_else(|| fits(vk::MemoryPropertyFlags::empty()));
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(kind.unwrap_or(0) as u32);
        let made = self.memories.last_mut().expect("it was just added");
        // SAFETY: the device and buffer are alive; memory is bound once, to a buffer that it fits, and
        // mapped once, where its kind allows that.
        unsafe {
            made.memory =
                self.device.allocate_memory(&info, None).map_err(|error| failure(&what, error))?;
            self.device
                .bind_buffer_memory(buffer, made.memory, 0)
                .map_err(|error| failure(&what, error))?;
            if residence == Residence::Host {
                let pointer = self
                    .device
                    .map_memory(made.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())
                    .map_err(|error| failure("mapping memory", error))?;
                made.mapped = pointer.cast();
            }
        }
        Ok(Memory(self.memories.len() - 1))
    }

    /// The bytes of a part of memory that lies on this machine.
    ///
    /// # Panics
    /// Of a part beyond it, and of memory on the device.
    pub(super) fn bytes(&mut self, part: Part) -> &mut [u8] {
        let Allocation { bytes, mapped, .. } = self.memories[part.memory.0];
        assert!(!mapped.is_null(), "memory of the device is not mapped");
        let end = part.offset.checked_add(part.bytes);
        assert!(end.is_some_and(|end| end <= bytes), "{part:?} of {bytes} bytes");
        // SAFETY: the memory is mapped, and the part lies within; nothing runs, and `&mut self` makes
        // this the only slice.
        unsafe {
            std::slice::from_raw_parts_mut(mapped.add(part.offset as usize), part.bytes as usize)
        }
    }

    /// The shader `words`, which has the entry point `name` and as many `bindings` as it says.
    pub(super) fn pipeline(
        &mut self,
        words: &[u32],
        name: &str,
        bindings: u32,
    ) -> Result<Pipeline, Diagnostics> {
        let what = format!("translating the shader of `@{name}`");
        let fail = |error| failure(&what, error);
        let name = CString::new(name).map_err(|_| {
            Diagnostic::error("E0902", "a name of a shader holds a zero byte".to_string())
        })?;
        let bindings: Vec<vk::DescriptorSetLayoutBinding<'_>> = (0..bindings)
            .map(|binding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let sets = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let code = vk::ShaderModuleCreateInfo::default().code(words);
        let null = (vk::Pipeline::null(), vk::PipelineLayout::null());
        self.pipelines.push(Compiled {
            pipeline: null.0,
            layout: null.1,
            set_layout: vk::DescriptorSetLayout::null(),
        });
        let made = self.pipelines.last_mut().expect("it was just added");
        // SAFETY: the device is alive, structures are locals, and the code is that of a module that this
        // crate wrote. The module may go when its pipeline is there.
        unsafe {
            made.set_layout =
                self.device.create_descriptor_set_layout(&sets, None).map_err(fail)?;
            let layouts = [made.set_layout];
            let layout = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
            made.layout = self.device.create_pipeline_layout(&layout, None).map_err(fail)?;
            let module = self.device.create_shader_module(&code, None).map_err(fail)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(&name);
            let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(made.layout)];
            let pipelines = self.device.create_compute_pipelines(self.cache, &info, None);
            self.device.destroy_shader_module(module, None);
            made.pipeline = pipelines.map_err(|(_, error)| fail(error))?[0];
        }
        Ok(Pipeline(self.pipelines.len() - 1))
    }

    /// Notes what to do, to be [run](Device::run) as often as one likes.
    pub(super) fn record(&mut self, commands: &[Command]) -> Result<Commands, Diagnostics> {
        self.try_record(commands).map_err(|error| failure("recording commands", error))
    }

    fn try_record(&mut self, commands: &[Command]) -> Result<Commands, vk::Result> {
        let launches = commands.iter().filter_map(|command| match command {
            Command::Launch(_, buffers, _) => Some(buffers.len() as u32),
            _ => None,
        });
        let (sets, buffers) = launches.fold((0, 0), |(sets, all), count| (sets + 1, all + count));
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(buffers.max(1))];
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(sets.max(1)).pool_sizes(&sizes);
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the device is alive, structures are locals, and handles are those of this device. The
        // recording keeps the sets' pool, so that they live as long as it.
        unsafe {
            let pool = self.device.create_descriptor_pool(&pool, None)?;
            let null = vk::CommandBuffer::null();
            self.recordings.push(Recording { buffer: null, pool });
            let buffer = self.device.allocate_command_buffers(&info)?[0];
            self.recordings.last_mut().expect("it was just added").buffer = buffer;
            self.device.begin_command_buffer(buffer, &<_>::default())?;
            if self.limits.tick.is_some() {
                self.device.cmd_reset_query_pool(buffer, self.timer, 0, MOST_TIMES);
            }
            for command in commands {
                self.command(buffer, pool, command)?;
            }
            self.device.end_command_buffer(buffer)?;
        }
        Ok(Commands(self.recordings.len() - 1))
    }

    /// Notes one command.
    ///
    /// # Safety
    /// `buffer` is being recorded, and `pool` has a set for it.
    unsafe fn command(
        &self,
        buffer: vk::CommandBuffer,
        pool: vk::DescriptorPool,
        command: &Command,
    ) -> Result<(), vk::Result> {
        let device = &self.device;
        match command {
            Command::Copy(from, to) => {
                let region = vk::BufferCopy::default()
                    .src_offset(from.offset)
                    .dst_offset(to.offset)
                    .size(from.bytes);
                let (from, to) = (self.buffer(*from), self.buffer(*to));
                // SAFETY: the parts lie in their buffers, which are alive.
                unsafe { device.cmd_copy_buffer(buffer, from, to, &[region]) };
            }
            Command::Barrier => {
                let stages = vk::PipelineStageFlags::COMPUTE_SHADER
                    | vk::PipelineStageFlags::TRANSFER
                    | vk::PipelineStageFlags::HOST;
                let writes = vk::AccessFlags::SHADER_WRITE
                    | vk::AccessFlags::TRANSFER_WRITE
                    | vk::AccessFlags::HOST_WRITE;
                let reads = vk::AccessFlags::SHADER_READ
                    | vk::AccessFlags::TRANSFER_READ
                    | vk::AccessFlags::HOST_READ;
                let barrier = [vk::MemoryBarrier::default()
                    .src_access_mask(writes)
                    .dst_access_mask(reads | writes)];
                let none = vk::DependencyFlags::empty();
                // SAFETY: the structures are locals.
                unsafe {
                    device.cmd_pipeline_barrier(buffer, stages, stages, none, &barrier, &[], &[]);
                }
            }
            Command::Launch(pipeline, parts, [x, y, z]) => {
                let Compiled { pipeline, layout, set_layout } = self.pipelines[pipeline.0];
                let layouts = [set_layout];
                let info = vk::DescriptorSetAllocateInfo::default()
                    .descriptor_pool(pool)
                    .set_layouts(&layouts);
                // SAFETY: the pool was made for as many sets.
                let set = unsafe { device.allocate_descriptor_sets(&info)? }[0];
                let infos: Vec<[vk::DescriptorBufferInfo; 1]> = parts
                    .iter()
                    .map(|(_, part)| {
                        [vk::DescriptorBufferInfo::default()
                            .buffer(self.buffer(*part))
                            .offset(part.offset)
                            .range(part.bytes)]
                    })
                    .collect();
                let writes: Vec<vk::WriteDescriptorSet<'_>> = parts
                    .iter()
                    .zip(&infos)
                    .map(|((binding, _), info)| {
                        vk::WriteDescriptorSet::default()
                            .dst_set(set)
                            .dst_binding(*binding)
                            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                            .buffer_info(info)
                    })
                    .collect();
                let point = vk::PipelineBindPoint::COMPUTE;
                // SAFETY: handles are alive, structures locals, and parts lie in their buffers.
                unsafe {
                    device.update_descriptor_sets(&writes, &[]);
                    device.cmd_bind_pipeline(buffer, point, pipeline);
                    device.cmd_bind_descriptor_sets(buffer, point, layout, 0, &[set], &[]);
                    device.cmd_dispatch(buffer, *x, *y, *z);
                }
            }
            Command::Time(number) => {
                let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
                assert!(*number < MOST_TIMES, "{number} times");
                // SAFETY: the pool is there where the device has a clock, and has that many queries.
                unsafe { device.cmd_write_timestamp(buffer, stage, self.timer, *number) };
            }
        }
        Ok(())
    }

    fn buffer(&self, part: Part) -> vk::Buffer {
        let Allocation { buffer, bytes, .. } = self.memories[part.memory.0];
        let end = part.offset.checked_add(part.bytes);
        assert!(end.is_some_and(|end| end <= bytes), "{part:?} of {bytes} bytes");
        buffer
    }

    /// Does what was noted, and waits for the end. Errors where the device is lost, or takes too long.
    pub(super) fn run(&mut self, commands: Commands) -> Result<(), Diagnostics> {
        let buffers = [self.recordings[commands.0].buffer];
        let submit = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: the buffer was recorded, handles are alive, and the fence is waited for before
        // anything else happens.
        let result = unsafe {
            self.device
                .queue_submit(self.queue, &submit, self.fence)
                .and_then(|()| self.device.wait_for_fences(&[self.fence], true, u64::MAX))
                .and_then(|()| self.device.reset_fences(&[self.fence]))
        };
        result.map_err(|error| failure("running a program", error))
    }

    /// The times that the last commands noted, in nanoseconds, from 0 on. Empty where the device has no
    /// clock.
    pub(super) fn times(&mut self, count: u32) -> Result<Vec<f64>, Diagnostics> {
        let Some(tick) = self.limits.tick else { return Ok(vec![]) };
        let mut ticks = vec![0u64; count as usize];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the pool is there where the device has a clock; the slice takes all results.
        unsafe { self.device.get_query_pool_results(self.timer, 0, &mut ticks, flags) }
            .map_err(|error| failure("reading the clock", error))?;
        Ok(ticks.iter().map(|ticks| *ticks as f64 * tick).collect())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the device is idle, or lost; each handle is destroyed once, after all that was made of
        // it, and handles that are null are ignored.
        unsafe {
            // A lost device is idle.
            let _ = self.device.device_wait_idle();
            for recording in &self.recordings {
                self.device.destroy_descriptor_pool(recording.pool, None);
            }
            for compiled in &self.pipelines {
                self.device.destroy_pipeline(compiled.pipeline, None);
                self.device.destroy_pipeline_layout(compiled.layout, None);
                self.device.destroy_descriptor_set_layout(compiled.set_layout, None);
            }
            for allocation in &self.memories {
                self.device.destroy_buffer(allocation.buffer, None);
                self.device.free_memory(allocation.memory, None);
            }
            self.device.destroy_query_pool(self.timer, None);
            self.device.destroy_fence(self.fence, None);
            self.device.destroy_command_pool(self.pool, None);
            self.device.destroy_pipeline_cache(self.cache, None);
            self.device.destroy_device(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_device_is_told_apart_from_too_little_memory() {
        let lost = failure("running a program", vk::Result::ERROR_DEVICE_LOST);
        assert_eq!((lost[0].code, lost[0].message.contains("lost")), ("E0916", true));
        let full = failure("allocating", vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        assert_eq!(full[0].code, "E0915");
    }
}
