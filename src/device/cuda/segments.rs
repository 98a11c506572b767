//! Segments from the driver: memory mapped into reserved address space, at the addresses that the placement rule names.
//!
//! Of two free blocks of one size the lower is taken, and what remains of it decides what fits later: were it left to the driver where
//! segments lie, a library that loads later or an older driver would change rows. A GPU that cannot map gets plain allocations.
//!
//! Invariant: `Err` means that the driver is out of memory. Any other failure is kept by the context, where whoever met
//! the refusal finds it.

use std::collections::BTreeMap;
use std::rc::Rc;

use cudarc::driver::sys::{self, CUresult};

use super::context::{Cuda, memory_info};
use super::error::driver;
use super::nvml;
use crate::alloc::{AddressSpace, Backing, BackingError};
use crate::meta::bytes::MIB;

/// Address space in memories of the GPU: where the smallest segment keeps a whole chunk, it takes sixteen times its size.
const SPREAD: u64 = 16;
/// What the driver maps in multiples of.
const GRANULE: u64 = 2 * MIB;

/// The driver as a source of segments.
#[derive(Debug)]
pub struct Segments {
    cuda: Rc<Cuda>,
    /// Or why there is none.
    space: Result<Space, CUresult>,
    /// The physical memory behind each mapped segment or page, by its address.
    mapped: BTreeMap<u64, sys::CUmemGenericAllocationHandle>,
}

/// Reserved addresses.
#[derive(Debug)]
struct Space {
    base: u64,
    length: u64,
    addresses: AddressSpace,
}

impl Space {
    fn holds(&self, address: u64) -> bool {
        (self.base..self.base + self.length).contains(&address)
    }
}

impl Segments {
    pub(super) fn new(cuda: Rc<Cuda>) -> Self {
        let length = cuda.facts.gpu.total_memory.saturating_mul(SPREAD).next_multiple_of(GRANULE);
        let mut base = 0;
        // SAFETY: `base` takes the address; the driver chooses it. A GPU that cannot map refuses.
        let code = unsafe { sys::cuMemAddressReserve(&raw mut base, length as usize, GRANULE as usize, 0, 0) };
        let space = match code {
            CUresult::CUDA_SUCCESS => Ok(Space { base, length, addresses: AddressSpace::new(base, base + length) }),
            code => Err(code),
        };
        Self { cuda, space, mapped: BTreeMap::new() }
    }

    fn place(&mut self, bytes: u64) -> Option<u64> {
        self.space.as_mut().ok()?.addresses.place(bytes)
    }

    /// Whether the address was one of the rule's, and is free again.
    fn unplace(&mut self, address: u64, bytes: u64) -> bool {
        let Some(space) = self.space.as_mut().ok().filter(|s| s.holds(address)) else { return false };
        space.addresses.unplace(address, bytes);
        true
    }

    /// Out of memory is an answer; any other failure is also kept.
    fn answer(&self, call: &'static str, code: CUresult, bytes: u64) -> Result<(), BackingError> {
        match code {
            CUresult::CUDA_SUCCESS => Ok(()),
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(BackingError { bytes }),
            _ => {
                self.cuda.attempt(|| driver(call, code));
                Err(BackingError { bytes })
            }
        }
    }

    /// Memory goes back after a failure too; but then nobody asks how that went.
    fn given_back(&self, call: &'static str, code: CUresult) {
        self.cuda.attempt(|| driver(call, code));
    }

    fn properties(&self) -> sys::CUmemAllocationProp {
        // SAFETY: a C struct of numbers and a pointer, for which all zeros is "nothing asked for".
        let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
        properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = self.location();
        properties
    }

    fn location(&self) -> sys::CUmemLocation {
        sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: self.cuda.facts.device }
    }

    /// Physical memory, mapped at `address`; nobody may use it yet.
    fn back(&mut self, address: u64, bytes: u64) -> Result<(), BackingError> {
        let (mut handle, properties) = (0, self.properties());
        // SAFETY: `handle` takes the handle; the properties live through the call.
        let code = unsafe { sys::cuMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0) };
        self.answer("cuMemCreate", code, bytes)?;
        // SAFETY: the address lies in a reservation where nothing is mapped yet; the handle is as large as what is mapped.
        let code = unsafe { sys::cuMemMap(address, bytes as usize, 0, handle, 0) };
        if let Err(e) = self.answer("cuMemMap", code, bytes) {
            // SAFETY: created above and mapped nowhere.
            let _ = unsafe { sys::cuMemRelease(handle) };
            return Err(e);
        }
        self.mapped.insert(address, handle);
        Ok(())
    }

    /// Lets the GPU use mapped memory.
    fn open(&self, address: u64, bytes: u64) -> Result<(), BackingError> {
        let access = sys::CUmemAccessDesc { location: self.location(), flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        // SAFETY: the whole range was mapped by `back`.
        let code = unsafe { sys::cuMemSetAccess(address, bytes as usize, &raw const access, 1) };
        self.answer("cuMemSetAccess", code, bytes)
    }

    /// Undoes [`back`](Self::back), once the GPU is idle.
    fn unback(&mut self, address: u64, bytes: u64) {
        let handle = self.mapped.remove(&address).expect("the allocator gives back what it has");
        // SAFETY: mapped by `back` with this size, and idle since the caller's synchronisation.
        self.given_back("cuMemUnmap", unsafe { sys::cuMemUnmap(address, bytes as usize) });
        // SAFETY: created by `back`; mapped nowhere else.
        self.given_back("cuMemRelease", unsafe { sys::cuMemRelease(handle) });
    }

    /// A whole segment at a placed address.
    fn segment(&mut self, address: u64, bytes: u64) -> Result<(), BackingError> {
        self.back(address, bytes)?;
        self.open(address, bytes).inspect_err(|_| self.unback(address, bytes))
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        if let Ok(space) = &self.space {
            // SAFETY: reserved in `new`; the allocator has given back all that was mapped.
            self.given_back("cuMemAddressFree", unsafe { sys::cuMemAddressFree(space.base, space.length as usize) });
        }
    }
}

impl Backing for Segments {
    fn total_memory(&self) -> u64 {
        self.cuda.facts.gpu.total_memory
    }

    fn free_memory(&self) -> u64 {
        memory_info().map_or(0, |(free, _)| free)
    }

    fn process_memory(&self) -> Option<u64> {
        nvml::process_used(&self.cuda.facts.bus)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, BackingError> {
        let Some(address) = self.place(bytes) else {
            let mut address = 0;
            // SAFETY: `address` takes the address.
            let code = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes as usize) };
            return self.answer("cuMemAlloc", code, bytes).map(|()| address);
        };
        let whole = bytes.next_multiple_of(GRANULE);
        match self.segment(address, whole) {
            Ok(()) => Ok(address),
            Err(_) => {
                self.unplace(address, whole);
                Err(BackingError { bytes })
            }
        }
    }

    fn release(&mut self, address: u64, bytes: u64) {
        if self.unplace(address, bytes) {
            let _ = self.cuda.synchronize(); // unmapping does not wait for work that still uses the memory; a failure is kept
            self.unback(address, bytes.next_multiple_of(GRANULE));
        } else {
            // SAFETY: the allocator gives back what `allocate` gave, once. The driver waits for work that still uses it.
            self.given_back("cuMemFree", unsafe { sys::cuMemFree_v2(address) });
        }
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, BackingError> {
        match self.space {
            Ok(_) => self.place(bytes).ok_or(BackingError { bytes }),
            Err(code) => self.answer("cuMemAddressReserve", code, bytes).and(Err(BackingError { bytes })),
        }
    }

    fn unreserve(&mut self, address: u64, bytes: u64) {
        self.unplace(address, bytes);
    }

    fn map(&mut self, address: u64, pages: u64, page: u64) -> Result<(), BackingError> {
        for n in 0..pages {
            if let Err(e) = self.back(address + n * page, page) {
                self.unmap(address, n, page);
                return Err(e);
            }
        }
        self.open(address, pages * page).inspect_err(|_| self.unmap(address, pages, page))
    }

    fn unmap(&mut self, address: u64, pages: u64, page: u64) {
        if pages > 0 {
            let _ = self.cuda.synchronize(); // as in `release`
        }
        for n in 0..pages {
            self.unback(address + n * page, page);
        }
    }
}
