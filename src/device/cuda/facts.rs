//! The GPUs that the driver knows, and what it says of each. Nothing here makes a context.

use std::ffi::CString;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use super::error::{CudaError, driver};
use super::library::{Library, require};
use super::nvml;
use crate::gpu::{CATALOGUE, Gpu};

/// One GPU, as the driver describes it.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Its number, as in `cuda:0`.
    pub ordinal: u32,
    /// What memory behaviour depends on.
    pub gpu: Gpu,
    /// Its address on the bus, as NVML wants it.
    pub(super) bus: CString,
    pub(super) device: sys::CUdevice,
}

/// Versions of what is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverVersion {
    /// The driver's own number, e.g. `580.95.05`; NVML knows it.
    pub driver: Option<String>,
    /// The newest CUDA it supports, e.g. `13.0`.
    pub cuda: String,
}

fn init() -> Result<(), CudaError> {
    require(&[Library::Driver])?;
    // SAFETY: the library is loaded; the call may be repeated.
    driver("cuInit", unsafe { sys::cuInit(0) })
}

/// The driver's version.
///
/// # Errors
/// The driver is missing or finds no GPU.
pub fn driver_version() -> Result<DriverVersion, CudaError> {
    init()?;
    let mut version = 0;
    // SAFETY: `version` takes the number.
    driver("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    Ok(DriverVersion { driver: nvml::driver_version(), cuda: format!("{}.{}", version / 1000, version % 1000 / 10) })
}

/// Every GPU the driver knows.
///
/// # Errors
/// The driver is missing, or a call fails.
pub fn gpus() -> Result<Vec<Facts>, CudaError> {
    (0..count()?).map(facts).collect()
}

fn count() -> Result<u32, CudaError> {
    init()?;
    let mut count = 0;
    // SAFETY: `count` takes the number.
    driver("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// What the driver says of GPU `ordinal`.
///
/// # Errors
/// There is no such GPU, or a call fails.
pub fn facts(ordinal: u32) -> Result<Facts, CudaError> {
    let count = count()?;
    if ordinal >= count {
        return Err(CudaError::NoSuchGpu { ordinal, count });
    }
    let mut device = 0;
    // SAFETY: `device` takes the handle of a GPU that exists.
    driver("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, ordinal as i32) })?;
    let mut name = [0 as core::ffi::c_char; 256];
    // SAFETY: the buffer is as long as said.
    driver("cuDeviceGetName", unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) })?;
    let mut bus = [0 as core::ffi::c_char; 32];
    // SAFETY: the buffer is as long as said.
    driver("cuDeviceGetPCIBusId", unsafe { sys::cuDeviceGetPCIBusId(bus.as_mut_ptr(), bus.len() as i32, device) })?;
    let mut total = 0;
    // SAFETY: `total` takes the number.
    driver("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&raw mut total, device) })?;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: `value` takes the number.
        driver("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, device) })
            .map(|()| u32::try_from(value).unwrap_or(0))
    };
    let full_name = text(&name);
    let known = CATALOGUE.iter().find(|g| g.full_name == full_name);
    let gpu = Gpu {
        name: known.map_or("other", |g| g.name),
        full_name: known.map_or_else(|| &*Box::leak(full_name.into_boxed_str()), |g| g.full_name),
        total_memory: total as u64,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        threads_per_multiprocessor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
    };
    let bus = CString::new(text(&bus)).expect("text before the first zero has no zero");
    Ok(Facts { ordinal, gpu, bus, device })
}

fn text(chars: &[core::ffi::c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
