//! Segments from the driver: plain allocations, and pages mapped into reserved address space for segments that expand.
//!
//! Invariant: `Err` means that the driver is out of memory. Any other failure is kept by the context, where whoever met
//! the refusal finds it.

use std::collections::BTreeMap;
use std::rc::Rc;

use cudarc::driver::sys::{self, CUresult};

use super::context::{Cuda, memory_info};
use super::error::driver;
use super::nvml;
use crate::alloc::{Backing, BackingError};

/// The driver as a source of segments.
#[derive(Debug)]
pub struct Segments {
    cuda: Rc<Cuda>,
    /// The physical memory behind each mapped page, by the page's address.
    pages: BTreeMap<u64, sys::CUmemGenericAllocationHandle>,
}

impl Segments {
    pub(super) fn new(cuda: Rc<Cuda>) -> Self {
        Self { cuda, pages: BTreeMap::new() }
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

    /// One page of physical memory, mapped at `address`.
    fn map_page(&mut self, address: u64, page: u64) -> Result<(), BackingError> {
        let (mut handle, properties) = (0, self.properties());
        // SAFETY: `handle` takes the handle; the properties live through the call.
        let code = unsafe { sys::cuMemCreate(&raw mut handle, page as usize, &raw const properties, 0) };
        self.answer("cuMemCreate", code, page)?;
        // SAFETY: the allocator maps within its reservation, where no page is mapped yet; the handle is as large as the page.
        let code = unsafe { sys::cuMemMap(address, page as usize, 0, handle, 0) };
        if let Err(e) = self.answer("cuMemMap", code, page) {
            // SAFETY: created above and mapped nowhere.
            let _ = unsafe { sys::cuMemRelease(handle) };
            return Err(e);
        }
        self.pages.insert(address, handle);
        Ok(())
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
        let mut address = 0;
        // SAFETY: `address` takes the address.
        let code = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes as usize) };
        self.answer("cuMemAlloc", code, bytes).map(|()| address)
    }

    fn release(&mut self, address: u64, _bytes: u64) {
        // SAFETY: the allocator gives back what `allocate` gave, once. The driver waits for work that still uses it.
        self.given_back("cuMemFree", unsafe { sys::cuMemFree_v2(address) });
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, BackingError> {
        let mut address = 0;
        // SAFETY: `address` takes the address; the driver chooses it.
        let code = unsafe { sys::cuMemAddressReserve(&raw mut address, bytes as usize, 0, 0, 0) };
        self.answer("cuMemAddressReserve", code, bytes).map(|()| address)
    }

    fn unreserve(&mut self, address: u64, bytes: u64) {
        // SAFETY: the allocator gives back a whole reservation with nothing mapped in it.
        self.given_back("cuMemAddressFree", unsafe { sys::cuMemAddressFree(address, bytes as usize) });
    }

    fn map(&mut self, address: u64, pages: u64, page: u64) -> Result<(), BackingError> {
        for n in 0..pages {
            if let Err(e) = self.map_page(address + n * page, page) {
                self.unmap(address, n, page);
                return Err(e);
            }
        }
        let access = sys::CUmemAccessDesc { location: self.location(), flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        // SAFETY: every page of the range was mapped above.
        let code = unsafe { sys::cuMemSetAccess(address, (pages * page) as usize, &raw const access, 1) };
        self.answer("cuMemSetAccess", code, pages * page).inspect_err(|_| self.unmap(address, pages, page))
    }

    fn unmap(&mut self, address: u64, pages: u64, page: u64) {
        if pages > 0 {
            let _ = self.cuda.synchronize(); // unmapping does not wait for work that still uses the memory; a failure is kept
        }
        for n in 0..pages {
            let at = address + n * page;
            let handle = self.pages.remove(&at).expect("the allocator unmaps pages that it mapped");
            // SAFETY: mapped by `map_page` with this size, and idle since the synchronisation above.
            self.given_back("cuMemUnmap", unsafe { sys::cuMemUnmap(at, page as usize) });
            // SAFETY: created by `map_page`; mapped nowhere else.
            self.given_back("cuMemRelease", unsafe { sys::cuMemRelease(handle) });
        }
    }
}
