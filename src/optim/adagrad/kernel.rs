//! Adagrad by deed (`torch/optim/adagrad.py`). Its state is there from the constructor on.

use crate::device::cuda::{Cuda, Entry, Source};
use crate::device::host::{Host, map};
use crate::exec::{Exec, Result};
use crate::optim::kernel::{self, NamedState, Scaling, Trained, address, launch, state_like, temporaries};
use crate::optim::{Adagrad, Implementation};
use crate::tensor::Tensor;

/// PyTorch's `eps`.
const EPS: f64 = 1e-10;

static SOURCE: Source = Source { name: "adagrad", text: include_str!("kernel.cu") };

/// Adagrad with its sums of squares.
pub(in crate::optim) struct Steps {
    adagrad: Adagrad,
    sums: Vec<Tensor>,
}

impl Steps {
    pub(in crate::optim) fn new(adagrad: Adagrad, exec: &Exec, parameters: &[Tensor]) -> Result<Self> {
        let sums = parameters.iter().map(|p| state_like(exec, p, "sum")).collect::<Result<_>>()?;
        Ok(Self { adagrad, sums })
    }

    fn update_on_host(&self, host: &Host, trained: &[Trained]) {
        for (t, sum) in trained.iter().zip(&self.sums) {
            let (p, Some(grad)) = (&t.parameter, &t.grad) else { continue };
            map!(host, (lr = self.adagrad.lr, eps = EPS), [grad, p, sum] => [p, sum], |grad, p, sum| {
                let sum = sum + grad * grad;
                [p - lr * grad / (sum.sqrt() + eps), sum]
            });
        }
    }

    fn update_on_cuda(&self, cuda: &Cuda, trained: &[Trained]) {
        let entries = trained.iter().zip(&self.sums).filter_map(|(t, sum)| {
            let addresses = [address(Some(&t.parameter)), address(Some(t.grad.as_ref()?)), address(Some(sum))];
            Some((t.parameter.dtype(), 0, Entry { addresses, elements: t.parameter.meta().numel() }))
        });
        launch(cuda, &SOURCE, "adagrad", entries, |_| bytemuck::bytes_of(&[self.adagrad.lr, EPS]).to_vec(), &[]);
    }

    fn updated<'a>(&'a self, trained: &'a [Trained]) -> impl Iterator<Item = (&'a Tensor, &'a Tensor)> {
        self.sums.iter().zip(trained).filter_map(|(sum, t)| Some((sum, t.grad.as_ref()?)))
    }
}

impl kernel::Steps for Steps {
    fn state(&self, parameter: usize) -> NamedState<'_> {
        vec![("sum", Some(&self.sums[parameter]))]
    }

    fn allocate(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        match self.adagrad.implementation {
            Implementation::ForLoop => {
                // Python's variable `std`: the last parameter's temporary lives until it is assigned anew.
                let mut _std;
                for (sum, _) in self.updated(trained) {
                    _std = exec.empty_like(sum)?;
                }
            }
            // PyTorch refuses `fused` on CUDA, and so does the language.
            Implementation::Foreach | Implementation::Fused => {
                let std = temporaries(exec, self.updated(trained).map(|(sum, _)| sum))?;
                let numerator = temporaries(exec, self.updated(trained).map(|(_, grad)| grad))?;
                drop((numerator, std));
            }
        }
        Ok(())
    }

    fn update(&mut self, exec: &Exec, trained: &[Trained], _scaling: Option<&Scaling>) {
        exec.on_host(|host| self.update_on_host(host, trained));
        exec.on_cuda(|gpu| self.update_on_cuda(gpu, trained));
    }
}
