//! How many connections a worker may have open.

use std::cell::Cell;
use std::rc::Rc;

/// Counts the connections of one worker that are open or being made.
#[derive(Debug, Default)]
pub struct Open {
    max: Cell<usize>,
    count: Cell<usize>,
    /// Those of them that speak HTTP/2 and that nobody uses: they can be closed for others.
    idle_http2: Cell<usize>,
}

impl Open {
    pub fn new(max: usize) -> Rc<Self> {
        let open = Self::default();
        open.max.set(max);
        Rc::new(open)
    }

    pub fn max(&self) -> usize {
        self.max.get()
    }

    pub fn set_max(&self, max: usize) {
        self.max.set(max);
    }

    /// Whether one more may be opened.
    pub fn has_room(&self) -> bool {
        self.count.get() < self.max.get()
    }

    pub fn idle_http2(&self) -> usize {
        self.idle_http2.get()
    }

    pub fn permit(self: &Rc<Self>) -> OpenPermit {
        self.count.update(|count| count + 1);
        OpenPermit { open: self.clone(), idle: Cell::new(false) }
    }
}

/// Counts one connection as open for as long as it lives.
#[derive(Debug)]
pub struct OpenPermit {
    open: Rc<Open>,
    idle: Cell<bool>,
}

impl OpenPermit {
    /// Whether nobody uses the connection, which speaks HTTP/2.
    pub fn set_idle(&self, idle: bool) {
        if self.idle.replace(idle) != idle {
            self.open.idle_http2.update(|count| if idle { count + 1 } else { count - 1 });
        }
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        self.set_idle(false);
        self.open.count.update(|count| count - 1);
    }
}
