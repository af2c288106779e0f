//! The context of the exchanges of a worker, for all versions of HTTP.

use std::cell::RefCell;

use crate::decode::Decoder;
use crate::h1::read_reservation::{READ_BYTES, ReadReservation};
use crate::redirect::Redirects;
use crate::reply::ResponseLimits;

/// Memory that all lanes of a worker use in turn.
#[derive(Debug)]
pub struct Scratch {
    pub read: RefCell<Vec<u8>>,
    pub write: RefCell<Vec<u8>>,
    pub decoder: Decoder,
}

impl Scratch {
    pub fn new(decoder: Decoder) -> Self {
        Self { read: RefCell::new(vec![0; READ_BYTES]), write: RefCell::default(), decoder }
    }
}

/// The context of an exchange: all that it uses beside its connection.
#[derive(Debug, Clone)]
pub struct ExchangeContext<'a> {
    pub scratch: &'a Scratch,
    pub limits: &'a ResponseLimits,
    /// The redirects that are followed for this row; those of `limits` are the run's.
    pub redirects: Redirects,
    /// The caller reads the body in pieces: the exchange returns after the head.
    pub streams: bool,
    /// The bound of the body of this row; that of `limits` is the run's.
    pub max_body_size: u64,
    pub read_reservation: &'a ReadReservation,
}
