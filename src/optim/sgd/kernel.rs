//! SGD by deed (`torch/optim/sgd.py`).

use bytemuck::{Pod, Zeroable};

use crate::device::cuda::{Cuda, Entry, Source};
use crate::device::host::{Host, map};
use crate::exec::{Exec, Result};
use crate::optim::kernel::{self, NamedState, Scaling, Temporaries, Trained, address, launch, state_like, temporaries};
use crate::optim::{Implementation, Sgd};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "sgd", text: include_str!("kernel.cu") };

/// As the kernel declares it.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Settings {
    lr: f64,
    momentum: f64,
    weight_decay: f64,
    nesterov: u32,
    has_momentum: u32,
}

/// SGD with its momentum buffers.
pub(in crate::optim) struct Steps {
    sgd: Sgd,
    buffers: Vec<Option<Tensor>>,
}

impl Steps {
    pub(in crate::optim) fn new(sgd: Sgd, parameters: usize) -> Self {
        Self { sgd, buffers: vec![None; parameters] }
    }

    fn decays(&self) -> bool {
        self.sgd.weight_decay != 0.0
    }

    fn has_momentum(&self) -> bool {
        self.sgd.momentum != 0.0
    }

    fn for_loop(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        // Python's variable `grad`: the last parameter's temporary lives until it is assigned anew.
        let mut _grad;
        for (i, t) in trained.iter().enumerate() {
            let Some(grad) = &t.grad else { continue };
            _grad = grad.clone();
            if self.decays() {
                _grad = exec.empty_like(grad)?;
            }
            if self.has_momentum() {
                let buffer = match &self.buffers[i] {
                    Some(buffer) => buffer.clone(),
                    None => self.buffers[i].insert(state_like(exec, &t.parameter, "momentum_buffer")?).clone(),
                };
                _grad = if self.sgd.nesterov { exec.empty_like(grad)? } else { buffer };
            }
        }
        Ok(())
    }

    fn foreach(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        let decayed =
            if self.decays() { temporaries(exec, trained.iter().filter_map(|t| t.grad.as_ref()))? } else { Temporaries::default() };
        if self.has_momentum() {
            self.create_buffers(exec, trained)?;
        }
        drop(decayed);
        Ok(())
    }

    fn fused(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        if self.has_momentum() { self.create_buffers(exec, trained) } else { Ok(()) }
    }

    fn update_on_host(&self, host: &Host, trained: &[Trained]) {
        let Sgd { lr, momentum, nesterov, weight_decay, .. } = self.sgd;
        for (t, buffer) in trained.iter().zip(&self.buffers) {
            let (p, Some(grad)) = (&t.parameter, &t.grad) else { continue };
            match buffer {
                None => map!(host, (lr = lr, decay = weight_decay), [grad, p] => [p], |grad, p| [p - lr * (grad + decay * p)]),
                // A new buffer holds zeros, so that it becomes the first gradient.
                Some(buffer) => {
                    map!(host, (lr = lr, decay = weight_decay, momentum = momentum), [grad, p, buffer] => [p, buffer], |grad, p, buffer| {
                        let grad = grad + decay * p;
                        let buffer = momentum * buffer + grad;
                        [p - lr * if nesterov { grad + momentum * buffer } else { buffer }, buffer]
                    });
                }
            }
        }
    }

    fn update_on_cuda(&self, cuda: &Cuda, trained: &[Trained], scaling: Option<&Scaling>) {
        let entries = trained.iter().zip(&self.buffers).filter_map(|(t, buffer)| {
            let addresses = [address(Some(&t.parameter)), address(Some(t.grad.as_ref()?)), address(buffer.as_ref())];
            Some((t.parameter.dtype(), 0, Entry { addresses, elements: t.parameter.meta().numel() }))
        });
        let Sgd { lr, momentum, nesterov, weight_decay, .. } = self.sgd;
        let settings = Settings { lr, momentum, weight_decay, nesterov: nesterov.into(), has_momentum: self.has_momentum().into() };
        launch(cuda, &SOURCE, "sgd", entries, |_| bytemuck::bytes_of(&settings).to_vec(), &Scaling::arguments(scaling));
    }

    fn create_buffers(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        for (buffer, t) in self.buffers.iter_mut().zip(trained) {
            if buffer.is_none() && t.grad.is_some() {
                *buffer = Some(state_like(exec, &t.parameter, "momentum_buffer")?);
            }
        }
        Ok(())
    }
}

impl kernel::Steps for Steps {
    fn state(&self, parameter: usize) -> NamedState<'_> {
        vec![("momentum_buffer", self.buffers[parameter].as_ref())]
    }

    fn allocate(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        match self.sgd.implementation {
            Implementation::ForLoop => self.for_loop(exec, trained),
            Implementation::Foreach => self.foreach(exec, trained),
            Implementation::Fused => self.fused(exec, trained),
        }
    }

    fn update(&mut self, exec: &Exec, trained: &[Trained], scaling: Option<&Scaling>) {
        exec.on_host(|host| self.update_on_host(host, trained));
        exec.on_cuda(|gpu| self.update_on_cuda(gpu, trained, scaling));
    }
}
