//! NVML, NVIDIA's management library: what the whole GPU and this process hold, and how busy it is, as `nvidia-smi` tells. It needs no
//! context, so it can answer before there is one. Where it is missing, or refuses (as in some containers), there is simply no figure.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use libloading::Library;

type Device = *mut c_void;
type Status = c_int;

const SUCCESS: Status = 0;
/// `nvmlMemory_v2`: the size of its struct, and 2 in the top byte.
const MEMORY_VERSION_2: c_uint = (size_of::<Memory>() as c_uint) | (2 << 24);
/// NVML's mark for a figure it cannot give.
const NOT_AVAILABLE: c_ulonglong = c_ulonglong::MAX;

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Default)]
struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlProcessInfo_t`, as `nvmlDeviceGetComputeRunningProcesses_v3` fills it.
#[repr(C)]
#[derive(Clone, Default)]
struct Process {
    pid: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// `nvmlUtilization_t`, in per cent.
#[repr(C)]
#[derive(Default)]
struct Utilisation {
    gpu: c_uint,
    memory: c_uint,
}

type Init = unsafe extern "C" fn() -> Status;
type ByBus = unsafe extern "C" fn(*const c_char, *mut Device) -> Status;
type MemoryInfo = unsafe extern "C" fn(Device, *mut Memory) -> Status;
type Processes = unsafe extern "C" fn(Device, *mut c_uint, *mut Process) -> Status;
type UtilisationRates = unsafe extern "C" fn(Device, *mut Utilisation) -> Status;
type PowerUsage = unsafe extern "C" fn(Device, *mut c_uint) -> Status;
type DriverVersion = unsafe extern "C" fn(*mut c_char, c_uint) -> Status;

struct Nvml {
    by_bus: ByBus,
    memory: MemoryInfo,
    processes: Processes,
    utilisation: UtilisationRates,
    power: PowerUsage,
    driver_version: DriverVersion,
}

fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    NVML.get_or_init(load).as_ref()
}

fn load() -> Option<Nvml> {
    // SAFETY: NVML has no initialisers but its own.
    let library = ["libnvidia-ml.so.1", "libnvidia-ml.so", "nvml.dll"].iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: the types are those of the functions in nvml.h, and the library is never unloaded.
    unsafe {
        let init = *library.get::<Init>(b"nvmlInit_v2").ok()?;
        let nvml = Nvml {
            by_bus: *library.get(b"nvmlDeviceGetHandleByPciBusId_v2").ok()?,
            memory: *library.get(b"nvmlDeviceGetMemoryInfo_v2").ok()?,
            processes: *library.get(b"nvmlDeviceGetComputeRunningProcesses_v3").ok()?,
            utilisation: *library.get(b"nvmlDeviceGetUtilizationRates").ok()?,
            power: *library.get(b"nvmlDeviceGetPowerUsage").ok()?,
            driver_version: *library.get(b"nvmlSystemGetDriverVersion").ok()?,
        };
        (init() == SUCCESS).then_some(nvml)
    }
}

/// The driver's own version, e.g. `580.95.05`.
pub(super) fn driver_version() -> Option<String> {
    let mut text = [0 as c_char; 96];
    // SAFETY: the buffer is as long as said; NVML writes a string that ends in a zero.
    (unsafe { (nvml()?.driver_version)(text.as_mut_ptr(), text.len() as c_uint) } == SUCCESS)
        .then(|| text.iter().take_while(|&&c| c != 0).map(|&c| char::from(c as u8)).collect())
}

/// Bytes that all processes together hold on the GPU at this PCI address.
pub(super) fn device_used(bus: &std::ffi::CStr) -> Option<u64> {
    let nvml = nvml()?;
    used(nvml, handle(nvml, bus)?)
}

fn used(nvml: &Nvml, device: Device) -> Option<u64> {
    let mut memory = Memory { version: MEMORY_VERSION_2, ..Memory::default() };
    // SAFETY: `memory` is the struct that its version names.
    (unsafe { (nvml.memory)(device, &raw mut memory) } == SUCCESS).then_some(memory.used)
}

/// What a GPU shows at a moment; each figure where NVML gives it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// The share of the time in which a kernel ran, from 0 to 1, over NVML's own last while (a sixth of a second to a second).
    pub utilisation: Option<f64>,
    /// Bytes that all processes together hold.
    pub memory: Option<u64>,
    /// In watts.
    pub power: Option<f64>,
}

/// What tells how busy a GPU is, from any thread.
#[derive(Debug, Clone, Copy)]
pub struct Gauge {
    device: Device,
}

// SAFETY: the handle is NVML's number for a GPU, good in the whole process until it ends, and NVML may be called from any thread.
unsafe impl Send for Gauge {}

impl Gauge {
    pub(super) fn of(bus: &std::ffi::CStr) -> Option<Self> {
        handle(nvml()?, bus).map(|device| Self { device })
    }

    /// What it shows now.
    #[must_use]
    pub fn read(&self) -> Reading {
        let Some(nvml) = nvml() else { return Reading::default() };
        let (mut rates, mut milliwatts) = (Utilisation::default(), 0);
        // SAFETY: `rates` is NVML's struct, which it fills.
        let utilisation = unsafe { (nvml.utilisation)(self.device, &raw mut rates) } == SUCCESS;
        // SAFETY: `milliwatts` takes the number.
        let power = unsafe { (nvml.power)(self.device, &raw mut milliwatts) } == SUCCESS;
        Reading {
            utilisation: utilisation.then(|| f64::from(rates.gpu) / 100.0),
            memory: used(nvml, self.device),
            power: power.then(|| f64::from(milliwatts) / 1e3),
        }
    }
}

/// Bytes that this process holds on the GPU at this PCI address.
pub(super) fn process_used(bus: &std::ffi::CStr) -> Option<u64> {
    let nvml = nvml()?;
    let mut processes = vec![Process::default(); 256];
    let mut count = processes.len() as c_uint;
    // SAFETY: NVML writes at most `count` structs and sets it to how many it wrote.
    if unsafe { (nvml.processes)(handle(nvml, bus)?, &raw mut count, processes.as_mut_ptr()) } != SUCCESS {
        return None;
    }
    let mine = processes.iter().take(count as usize).find(|p| p.pid == std::process::id())?;
    (mine.used != NOT_AVAILABLE).then_some(mine.used)
}

fn handle(nvml: &Nvml, bus: &std::ffi::CStr) -> Option<Device> {
    let mut device = std::ptr::null_mut();
    // SAFETY: `bus` ends in a zero and `device` takes the handle.
    (unsafe { (nvml.by_bus)(bus.as_ptr(), &raw mut device) } == SUCCESS).then_some(device)
}
