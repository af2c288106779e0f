//! Whether somebody may still write files of saved bodies: a run has not ended before nobody does.
//!
//! A lane that is dropped does not wait for the thread that works for it. If the next run of the job began meanwhile, that
//! thread would remove a file of the same name, or give it a name.

use std::convert::Infallible;

/// Held by whoever may write.
#[derive(Debug)]
pub struct InUse {
    _held: async_channel::Sender<Infallible>,
}

/// Tells when nobody does any more.
#[derive(Debug)]
pub struct Unused(async_channel::Receiver<Infallible>);

pub fn in_use() -> (InUse, Unused) {
    let (held, released) = async_channel::bounded(1);
    (InUse { _held: held }, Unused(released))
}

impl Unused {
    /// Waits until all that holds it is gone.
    pub fn wait(&self) {
        while self.0.recv_blocking().is_ok() {}
    }
}
