//! What packages declare of Vulkan's interface is what that is.

use std::mem::{offset_of, size_of};
use std::process::Command;

use ash::vk;

use crate::common::missing;

/// What packages declare.
const DECLARED: &str = include_str!("../src/artifact/vulkan.c");

/// Sizes of structures, and where some of their members lie.
macro_rules! layouts {
    ($($ours:ident = $theirs:ident { $($own:ident = $their:ident),* })*) => {{
        let mut expected: Vec<(String, usize)> = vec![];
        $(
            expected.push((format!("sizeof(struct {})", stringify!($ours)), size_of::<vk::$theirs>()));
            $(
                let member = format!("offsetof(struct {}, {})", stringify!($ours), stringify!($own));
                expected.push((member, offset_of!(vk::$theirs, $their)));
            )*
        )*
        expected
    }};
}

#[test]
fn structures_lie_in_memory_as_the_driver_reads_them() {
    let expected = layouts! {
        application = ApplicationInfo { api = api_version }
        instance_info = InstanceCreateInfo { application = p_application_info }
        limits = PhysicalDeviceLimits {
            buffer_bytes = max_storage_buffer_range,
            buffers = max_per_stage_descriptor_storage_buffers,
            shared_bytes = max_compute_shared_memory_size,
            blocks = max_compute_work_group_count,
            block_threads = max_compute_work_group_invocations,
            threads = max_compute_work_group_size
        }
        properties = PhysicalDeviceProperties {
            api = api_version, kind = device_type, name = device_name, limits = limits
        }
        more_properties = PhysicalDeviceProperties2 { properties = properties }
        allocation_limit = PhysicalDeviceMaintenance3Properties { bytes = max_memory_allocation_size }
        queue_family = QueueFamilyProperties { flags = queue_flags }
        memory_kinds = PhysicalDeviceMemoryProperties {
            kind_count = memory_type_count, kinds = memory_types, heaps = memory_heaps
        }
        storage16 = PhysicalDevice16BitStorageFeatures { buffers = storage_buffer16_bit_access }
        storage8 = PhysicalDevice8BitStorageFeatures { buffers = storage_buffer8_bit_access }
        narrow_arithmetic = PhysicalDeviceShaderFloat16Int8Features { float16 = shader_float16 }
        queue_info = DeviceQueueCreateInfo {
            family = queue_family_index, count = queue_count, priorities = p_queue_priorities
        }
        device_info = DeviceCreateInfo {
            queue_count = queue_create_info_count,
            queues = p_queue_create_infos,
            extension_count = enabled_extension_count,
            extensions = pp_enabled_extension_names,
            features = p_enabled_features
        }
        buffer_info = BufferCreateInfo { bytes = size, usage = usage }
        memory_needs = MemoryRequirements { bytes = size, kinds = memory_type_bits }
        memory_info = MemoryAllocateInfo { bytes = allocation_size, kind = memory_type_index }
        shader_info = ShaderModuleCreateInfo { bytes = code_size, words = p_code }
        binding = DescriptorSetLayoutBinding {
            binding = binding, type = descriptor_type, count = descriptor_count, stages = stage_flags
        }
        set_layout_info = DescriptorSetLayoutCreateInfo {
            count = binding_count, bindings = p_bindings
        }
        layout_info = PipelineLayoutCreateInfo { set_count = set_layout_count, sets = p_set_layouts }
        stage = PipelineShaderStageCreateInfo { stage = stage, shader = module, entry = p_name }
        pipeline_info = ComputePipelineCreateInfo { stage = stage, layout = layout }
        pool_size = DescriptorPoolSize { type = ty, count = descriptor_count }
        pool_info = DescriptorPoolCreateInfo {
            sets = max_sets, size_count = pool_size_count, sizes = p_pool_sizes
        }
        set_info = DescriptorSetAllocateInfo {
            pool = descriptor_pool, count = descriptor_set_count, layouts = p_set_layouts
        }
        bound_part = DescriptorBufferInfo { buffer = buffer, offset = offset, bytes = range }
        set_write = WriteDescriptorSet {
            set = dst_set,
            binding = dst_binding,
            count = descriptor_count,
            descriptors = descriptor_type,
            buffers = p_buffer_info
        }
        command_pool_info = CommandPoolCreateInfo { family = queue_family_index }
        commands_info = CommandBufferAllocateInfo { pool = command_pool, count = command_buffer_count }
        begin_info = CommandBufferBeginInfo { flags = flags }
        barrier = MemoryBarrier { from = src_access_mask, to = dst_access_mask }
        copy = BufferCopy { from = src_offset, to = dst_offset, bytes = size }
        submission = SubmitInfo { commands_count = command_buffer_count, commands = p_command_buffers }
        fence_info = FenceCreateInfo { flags = flags }
    };
    let mut expected = expected;
    let features = [
        ("FLOAT64", offset_of!(vk::PhysicalDeviceFeatures, shader_float64)),
        ("INT64", offset_of!(vk::PhysicalDeviceFeatures, shader_int64)),
        ("INT16", offset_of!(vk::PhysicalDeviceFeatures, shader_int16)),
        ("FEATURES", size_of::<vk::PhysicalDeviceFeatures>()),
    ];
    expected.extend(features.map(|(name, bytes)| (format!("{name} * 4"), bytes)));
    let types = [
        ("APPLICATION_INFO", vk::StructureType::APPLICATION_INFO),
        ("INSTANCE_INFO", vk::StructureType::INSTANCE_CREATE_INFO),
        ("QUEUE_INFO", vk::StructureType::DEVICE_QUEUE_CREATE_INFO),
        ("DEVICE_INFO", vk::StructureType::DEVICE_CREATE_INFO),
        ("SUBMISSION", vk::StructureType::SUBMIT_INFO),
        ("MEMORY_INFO", vk::StructureType::MEMORY_ALLOCATE_INFO),
        ("FENCE_INFO", vk::StructureType::FENCE_CREATE_INFO),
        ("BUFFER_INFO", vk::StructureType::BUFFER_CREATE_INFO),
        ("SHADER_INFO", vk::StructureType::SHADER_MODULE_CREATE_INFO),
        ("STAGE", vk::StructureType::PIPELINE_SHADER_STAGE_CREATE_INFO),
        ("PIPELINE_INFO", vk::StructureType::COMPUTE_PIPELINE_CREATE_INFO),
        ("LAYOUT_INFO", vk::StructureType::PIPELINE_LAYOUT_CREATE_INFO),
        ("SET_LAYOUT_INFO", vk::StructureType::DESCRIPTOR_SET_LAYOUT_CREATE_INFO),
        ("POOL_INFO", vk::StructureType::DESCRIPTOR_POOL_CREATE_INFO),
        ("SET_INFO", vk::StructureType::DESCRIPTOR_SET_ALLOCATE_INFO),
        ("SET_WRITE", vk::StructureType::WRITE_DESCRIPTOR_SET),
        ("COMMAND_POOL_INFO", vk::StructureType::COMMAND_POOL_CREATE_INFO),
        ("COMMANDS_INFO", vk::StructureType::COMMAND_BUFFER_ALLOCATE_INFO),
        ("BEGIN_INFO", vk::StructureType::COMMAND_BUFFER_BEGIN_INFO),
        ("BARRIER", vk::StructureType::MEMORY_BARRIER),
        ("MORE_PROPERTIES", vk::StructureType::PHYSICAL_DEVICE_PROPERTIES_2),
        ("NARROW_ARITHMETIC", vk::StructureType::PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES),
        ("STORAGE16", vk::StructureType::PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES),
        ("ALLOCATION_LIMIT", vk::StructureType::PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES),
        ("STORAGE8", vk::StructureType::PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES),
    ];
    expected.extend(types.map(|(name, ty)| (name.to_string(), ty.as_raw() as usize)));
    let others = [
        ("VERSION_1_1", vk::API_VERSION_1_1),
        ("COMPUTE_QUEUE", vk::QueueFlags::COMPUTE.as_raw()),
        ("COMPUTE_STAGE", vk::ShaderStageFlags::COMPUTE.as_raw()),
        ("COMPUTE_POINT", vk::PipelineBindPoint::COMPUTE.as_raw() as u32),
        ("STORAGE_BUFFER", vk::DescriptorType::STORAGE_BUFFER.as_raw() as u32),
        (
            "BUFFER_USAGE",
            (vk::BufferUsageFlags::STORAGE_BUFFER
                | vk::BufferUsageFlags::TRANSFER_SRC
                | vk::BufferUsageFlags::TRANSFER_DST)
                .as_raw(),
        ),
        ("ON_DEVICE", vk::MemoryPropertyFlags::DEVICE_LOCAL.as_raw()),
        (
            "ON_HOST",
            (vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT)
                .as_raw(),
        ),
        (
            "BARRIER_STAGES",
            (vk::PipelineStageFlags::COMPUTE_SHADER
                | vk::PipelineStageFlags::TRANSFER
                | vk::PipelineStageFlags::HOST)
                .as_raw(),
        ),
        (
            "WRITES",
            (vk::AccessFlags::SHADER_WRITE
                | vk::AccessFlags::TRANSFER_WRITE
                | vk::AccessFlags::HOST_WRITE)
                .as_raw(),
        ),
        (
            "READS",
            (vk::AccessFlags::SHADER_READ
                | vk::AccessFlags::TRANSFER_READ
                | vk::AccessFlags::HOST_READ)
                .as_raw(),
        ),
        ("-NO_HOST_MEMORY", -vk::Result::ERROR_OUT_OF_HOST_MEMORY.as_raw() as u32),
        ("-NO_DEVICE_MEMORY", -vk::Result::ERROR_OUT_OF_DEVICE_MEMORY.as_raw() as u32),
        ("-NO_EXTENSION", -vk::Result::ERROR_EXTENSION_NOT_PRESENT.as_raw() as u32),
        ("-NO_FEATURE", -vk::Result::ERROR_FEATURE_NOT_PRESENT.as_raw() as u32),
    ];
    expected.extend(others.map(|(name, value)| (name.to_string(), value as usize)));

    let declared = DECLARED.split("/* The functions that are called").next().expect("declarations");
    let asserts: String = expected
        .iter()
        .map(|(what, value)| format!("_Static_assert({what} == {value}, \"{what}\");\n"))
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("layouts.c");
    let includes = "#include <stddef.h>\n#include <stdint.h>\n";
    std::fs::write(&source, format!("{includes}{declared}{asserts}")).expect("a file");
    let output = Command::new("cc").args(["-std=c11", "-fsyntax-only"]).arg(&source).output();
    let Ok(output) = output else { return missing("cc is missing") };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
