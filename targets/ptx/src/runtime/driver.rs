//! NVIDIA devices, by the driver's interface (CUDA Driver API), which is loaded when it is asked for:
//! nothing of NVIDIA's is needed to build or to start. The driver translates PTX for the device it has.
//!
//! The only place of this crate with `unsafe`. **What it rests on**: the functions have the types that the
//! driver's manual gives for their names, which carry the version of their interface. Every pointer that
//! is handed over points to a value that lives until the call returns, and which the driver does not keep.
//! **What callers get**: all is safe, because addresses are looked up among the allocations of this device
//! before bytes are copied, and kernels, which the generator and its tests keep within their buffers,
//! write to memory of the device alone. The host waits for a launch before it reads what came of it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use ir_core::{Diagnostic, Diagnostics};
use libloading::Library;
use rustc_hash::FxHashMap;

use super::Device;
use crate::arch::Arch;
use crate::codegen::Entry;

/// The driver.
const LIBRARY: &str = "libcuda.so.1";

/// What every function gives; 0 is success.
type Status = c_int;
type Handle = *mut c_void;

/// Attributes of a device: its compute capability.
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

/// Options of translation: where messages go, and how many bytes of them.
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: Status = 2;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        /// The functions of the driver that are called here.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> Status,)*
            /// Kept last: the functions lie in it.
            _library: Library,
        }

        impl Functions {
            fn load() -> Result<Functions, libloading::Error> {
                // SAFETY: the driver's library may be loaded anywhere; its initializers ask for nothing.
                let library = unsafe { Library::new(LIBRARY) }?;
                Ok(Functions {
                    // SAFETY: these are the types that the manual gives, and the library is kept.
                    $($field: *unsafe { library.get(concat!($name, "\0").as_bytes()) }?,)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    init = "cuInit": fn(c_uint);
    error_name = "cuGetErrorName": fn(Status, *mut *const c_char);
    device = "cuDeviceGet": fn(*mut c_int, c_int);
    attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int);
    retain = "cuDevicePrimaryCtxRetain": fn(*mut Handle, c_int);
    release = "cuDevicePrimaryCtxRelease_v2": fn(c_int);
    set_current = "cuCtxSetCurrent": fn(Handle);
    synchronize = "cuCtxSynchronize": fn();
    load_module = "cuModuleLoadDataEx": fn(*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    unload_module = "cuModuleUnload": fn(Handle);
    function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char);
    allocate = "cuMemAlloc_v2": fn(*mut u64, usize);
    free = "cuMemFree_v2": fn(u64);
    upload = "cuMemcpyHtoD_v2": fn(u64, *const c_void, usize);
    download = "cuMemcpyDtoH_v2": fn(*mut c_void, u64, usize);
    launch = "cuLaunchKernel": fn(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
}

/// A module of PTX on the first device of this machine.
pub struct Driver {
    functions: Functions,
    number: c_int,
    context: Handle,
    module: Handle,
    entries: FxHashMap<String, Handle>,
    /// Address and size of what was allocated.
    allocations: Vec<(u64, usize)>,
}

// SAFETY: handles of the driver may be used on any thread, once the context is current on it, which every
// method sees to.
unsafe impl Send for Driver {}

impl Driver {
    /// The module `text`, with these entries, translated for the first device.
    ///
    /// # Errors
    /// `E0923` without a driver or a device of `arch` or a later one, `E0916` for what the driver
    /// reports.
    pub fn new(text: &str, entries: &[Entry], arch: Arch) -> Result<Driver, Diagnostics> {
        let none = |what: String| {
            let help = "say `ptx{run=interpreter}`, which runs the same code on the processor";
            Diagnostics::from(Diagnostic::error("E0923", what).help(help))
        };
        let functions = Functions::load()
            .map_err(|error| none(format!("there is no NVIDIA driver: {error}")))?;
        let mut driver = Driver {
            functions,
            number: 0,
            context: null_mut(),
            module: null_mut(),
            entries: FxHashMap::default(),
            allocations: vec![],
        };
        // SAFETY: it takes no pointer.
        let status = unsafe { (driver.functions.init)(0) };
        // SAFETY: `number` lives until the call returns.
        let found = unsafe { (driver.functions.device)(&raw mut driver.number, 0) };
        for (status, what) in [(status, "start the driver"), (found, "find a device")] {
            if status != 0 {
                return Err(none(format!("cannot {what}: {}", driver.name_of(status))));
            }
        }
        let capability =
            10 * driver.attribute(CAPABILITY_MAJOR)? + driver.attribute(CAPABILITY_MINOR)?;
        if capability < arch.number() {
            let needed = arch.number();
            return Err(none(format!(
                "the device is of sm_{capability}, and the code needs sm_{needed}"
            )));
        }
        // SAFETY: `context` lives until the call returns.
        let status = unsafe { (driver.functions.retain)(&raw mut driver.context, driver.number) };
        driver.check(status, "use the device")?;
        driver.make_current()?;
        driver.load(text)?;
        for entry in entries {
            let name = CString::new(entry.name.as_str()).expect("names of entries have no zeros");
            let mut function = null_mut();
            // SAFETY: both live until the call returns, and the module is loaded.
            let status = unsafe {
                (driver.functions.function)(&raw mut function, driver.module, name.as_ptr())
            };
            driver.check(status, &format!("find the entry `{}`", entry.name))?;
            driver.entries.insert(entry.name.clone(), function);
        }
        Ok(driver)
    }

    fn attribute(&self, attribute: c_int) -> Result<u32, Diagnostics> {
        let mut value = 0;
        // SAFETY: `value` lives until the call returns.
        let status = unsafe { (self.functions.attribute)(&raw mut value, attribute, self.number) };
        self.check(status, "ask what the device is")?;
        Ok(u32::try_from(value).unwrap_or(0)) // A device without a version has no code.
    }

    /// Translates and loads `text`.
    fn load(&mut self, text: &str) -> Result<(), Diagnostics> {
        let text = CString::new(text).expect("generated code has no zeros");
        let mut log = vec![0u8; 8192];
        let mut options = [ERROR_LOG, ERROR_LOG_BYTES];
        // The size is passed as a pointer, which nothing follows.
        let mut values = [log.as_mut_ptr().cast(), log.len() as *mut c_void];
        // SAFETY: the arrays have as many elements as is said, and live until the call returns, as does
        // the log, whose size is its own; the text ends with a zero.
        let status = unsafe {
            (self.functions.load_module)(
                &raw mut self.module,
                text.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        let said = CStr::from_bytes_until_nul(&log).map(|said| said.to_string_lossy().into_owned());
        self.check(status, "translate the code").map_err(|errors| {
            let notes = said.unwrap_or_default(); // A full log does not end.
            let error = errors.into_iter().next().expect("a failure is an error");
            notes.lines().fold(error, |error, line| error.note(line)).into()
        })
    }

    fn make_current(&self) -> Result<(), Diagnostics> {
        // SAFETY: the context is retained.
        let status = unsafe { (self.functions.set_current)(self.context) };
        self.check(status, "use the device")
    }

    /// The driver's name for a status.
    fn name_of(&self, status: Status) -> String {
        let mut name = null();
        // SAFETY: `name` lives until the call returns; what it points to then is a constant.
        let found = unsafe { (self.functions.error_name)(status, &raw mut name) };
        if found != 0 || name.is_null() {
            return format!("error {status}");
        }
        // SAFETY: the driver gives a constant that ends with a zero.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    fn check(&self, status: Status, what: &str) -> Result<(), Diagnostics> {
        match status {
            0 => Ok(()),
            _ => {
                let message = format!("the driver cannot {what}: {}", self.name_of(status));
                Err(Diagnostic::error("E0916", message).into())
            }
        }
    }

    /// Whether `bytes` bytes from `address` on are within one allocation.
    fn owns(&self, address: u64, bytes: usize) -> Result<(), Diagnostics> {
        let within = |(start, size): &(u64, usize)| {
            let offset =
                address.checked_sub(*start).and_then(|offset| usize::try_from(offset).ok());
            offset.and_then(|offset| offset.checked_add(bytes)).is_some_and(|end| end <= *size)
        };
        match self.allocations.iter().any(within) {
            true => Ok(()),
            false => {
                let message = format!("{bytes} bytes at {address:#x} are no memory of the device");
                Err(Diagnostic::error("E0916", message).into())
            }
        }
    }
}

impl Device for Driver {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Diagnostics> {
        self.make_current()?;
        let (bytes, mut address) = (bytes.max(1), 0);
        // SAFETY: `address` lives until the call returns.
        let status = unsafe { (self.functions.allocate)(&raw mut address, bytes) };
        if status == OUT_OF_MEMORY {
            let taken: usize = self.allocations.iter().map(|(_, size)| size).sum();
            let message =
                format!("the device has no {bytes} bytes of memory besides {taken} in use");
            return Err(Diagnostic::error("E0915", message).into());
        }
        self.check(status, "allocate memory")?;
        self.allocations.push((address, bytes));
        Ok(address)
    }

    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<(), Diagnostics> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.owns(to, bytes.len())?;
        self.make_current()?;
        // SAFETY: the memory of the device is ours, and has as many bytes; the host's lives until the
        // call returns, which copies before that.
        let status = unsafe { (self.functions.upload)(to, bytes.as_ptr().cast(), bytes.len()) };
        self.check(status, "copy to the device")
    }

    fn download(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Diagnostics> {
        self.make_current()?;
        // SAFETY: it takes no pointer.
        let status = unsafe { (self.functions.synchronize)() };
        self.check(status, "run the code")?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.owns(from, bytes.len())?;
        // SAFETY: as for `upload`; `bytes` is borrowed by nobody else.
        let status =
            unsafe { (self.functions.download)(bytes.as_mut_ptr().cast(), from, bytes.len()) };
        self.check(status, "copy from the device")
    }

    fn launch(&mut self, entry: &Entry, buffers: &[u64]) -> Result<(), Diagnostics> {
        buffers.iter().try_for_each(|buffer| self.owns(*buffer, 0))?;
        self.make_current()?;
        let Some(&function) = self.entries.get(&entry.name) else {
            let message = format!("the module has no entry `{}`", entry.name);
            return Err(Diagnostic::error("E0916", message).into());
        };
        // The generator refuses what has more.
        let extents = |extents: [i64; 3]| {
            extents.map(|extent| c_uint::try_from(extent).unwrap_or(c_uint::MAX))
        };
        let ([x, y, z], [i, j, k]) = (extents(entry.launch.blocks), extents(entry.launch.threads));
        let mut addresses = buffers.to_vec();
        let mut parameters: Vec<*mut c_void> =
            addresses.iter_mut().map(|address| (&raw mut *address).cast()).collect();
        // SAFETY: there is a pointer for each parameter of the entry, which are addresses, in the order of
        // its buffers; the driver copies what they point to before the call returns.
        let status = unsafe {
            (self.functions.launch)(
                function,
                x,
                y,
                z,
                i,
                j,
                k,
                0,
                null_mut(),
                parameters.as_mut_ptr(),
                null_mut(),
            )
        };
        self.check(status, &format!("launch `{}`", entry.name))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.context.is_null() || self.make_current().is_err() {
            return;
        }
        // What fails here leaves memory with the context, which the process gives back.
        // SAFETY: nothing uses the allocations, the module and the context after this.
        unsafe {
            (self.functions.synchronize)();
            for (address, _) in &self.allocations {
                (self.functions.free)(*address);
            }
            if !self.module.is_null() {
                (self.functions.unload_module)(self.module);
            }
            (self.functions.release)(self.number);
        }
    }
}
