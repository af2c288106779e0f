//! The cache of DNS results and of pending lookups: there is one lookup of a hostname, however many lanes wait for it.
//!
//! Pure except for its lock: time is passed in. The number of results is bounded. Pending lookups are bounded by the number
//! of lanes, since a lookup without a waiting lane is cancelled.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lru::LruCache;
use tokio::sync::watch;

use crate::dial::dns::lookup_result::{DnsResult, LookupResult};

/// The bound of cached hostnames; the least recently used is evicted first.
pub const MAX_HOSTNAMES: NonZeroUsize = NonZeroUsize::new(16_384).expect("not zero");

/// Sends the result of a pending lookup to all that wait for it.
type AnswerSender = Arc<watch::Sender<Option<DnsResult>>>;

#[derive(Debug)]
pub(crate) struct Cache {
    entries: Mutex<CacheEntries>,
}

#[derive(Debug)]
struct CacheEntries {
    known: LruCache<Box<str>, (DnsResult, Instant)>,
    pending: HashMap<Box<str>, AnswerSender>,
}

/// The entry of the cache for a hostname.
#[derive(Debug)]
pub(crate) enum Cached {
    Known(DnsResult),
    /// Another caller has started the lookup.
    Pending(PendingLookup),
    /// The caller has to run the lookup.
    Missing(Lookup, PendingLookup),
}

/// Waits for the result of a pending lookup.
#[derive(Debug)]
pub(crate) struct PendingLookup {
    result: watch::Receiver<Option<DnsResult>>,
}

impl PendingLookup {
    pub(crate) async fn wait(mut self) -> DnsResult {
        match self.result.wait_for(Option::is_some).await {
            Ok(result) => (*result).clone().unwrap_or_else(cancelled),
            Err(_) => cancelled(),
        }
    }
}

/// A lookup that its owner has to run. Dropping it fails all pending results.
#[derive(Debug)]
pub struct Lookup {
    cache: Arc<Cache>,
    pub name: Box<str>,
    sender: AnswerSender,
}

impl Cache {
    pub(crate) fn new(max_hostnames: NonZeroUsize) -> Self {
        Self { entries: Mutex::new(CacheEntries { known: LruCache::new(max_hostnames), pending: HashMap::new() }) }
    }

    /// Returns the valid result for a hostname, or joins or creates its lookup.
    pub(crate) fn get_or_join(self: &Arc<Self>, name: &str, now: Instant) -> Cached {
        let mut entries = self.lock();
        match entries.known.get(name) {
            Some((result, until)) if now < *until => return Cached::Known(result.clone()),
            _ => {}
        }
        if let Some(sender) = entries.pending.get(name) {
            return Cached::Pending(PendingLookup { result: sender.subscribe() });
        }
        let (sender, result) = watch::channel(None);
        let sender = AnswerSender::new(sender);
        entries.pending.insert(name.into(), sender.clone());
        Cached::Missing(Lookup { cache: self.clone(), name: name.into(), sender }, PendingLookup { result })
    }

    /// Returns the numbers of cached results and of pending lookups.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let entries = self.lock();
        (entries.known.len(), entries.pending.len())
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lookup {
    /// Stores the result for its lifetime and sends it to all that wait.
    pub fn complete(self, result: LookupResult, now: Instant) {
        let LookupResult { result, lifetime } = result;
        let mut entries = self.cache.lock();
        entries.known.put(self.name.clone(), (result.clone(), now + lifetime));
        self.remove_from(&mut entries);
        drop(entries);
        // Sent last: a caller that receives the result finds the lookup no longer pending.
        self.sender.send_replace(Some(result));
    }

    /// Removes this lookup, but not a later one of the same hostname.
    fn remove_from(&self, entries: &mut CacheEntries) {
        if entries.pending.get(&self.name).is_some_and(|sender| Arc::ptr_eq(sender, &self.sender)) {
            entries.pending.remove(&self.name);
        }
    }

    /// Waits until no caller waits for the result, and removes the lookup.
    pub(crate) async fn wait_unwanted(&self) {
        loop {
            self.sender.closed().await;
            let mut entries = self.cache.lock();
            // A caller may have joined in the meantime; none can join while the lock is held.
            if self.sender.receiver_count() == 0 {
                entries.pending.remove(&self.name);
                return;
            }
        }
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.remove_from(&mut self.cache.lock());
    }
}

fn cancelled() -> DnsResult {
    Err(Arc::new("the lookup was cancelled".into()))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;

    fn addresses() -> Arc<[IpAddr]> {
        [IpAddr::from([127, 0, 0, 1])].into()
    }

    fn cache(max_hostnames: usize) -> Arc<Cache> {
        Arc::new(Cache::new(NonZeroUsize::new(max_hostnames).expect("not zero")))
    }

    fn start(cache: &Arc<Cache>, name: &str, now: Instant) -> (Lookup, PendingLookup) {
        match cache.get_or_join(name, now) {
            Cached::Missing(lookup, result) => (lookup, result),
            other => panic!("{name} is not missing: {other:?}"),
        }
    }

    fn complete(lookup: Lookup, result: DnsResult, seconds: u64, now: Instant) {
        lookup.complete(LookupResult { result, lifetime: Duration::from_secs(seconds) }, now);
    }

    #[tokio::test]
    async fn callers_that_join_a_lookup_get_its_addresses() {
        let (cache, now) = (cache(8), Instant::now());
        let (lookup, first) = start(&cache, "a", now);
        let Cached::Pending(second) = cache.get_or_join("a", now) else { panic!("its lookup is pending") };
        complete(lookup, Ok(addresses()), 0, now);
        assert_eq!([Ok(addresses()), Ok(addresses())], [first.wait().await, second.wait().await]);
    }

    #[test]
    fn a_reply_is_valid_for_its_lifetime_and_no_longer() {
        let (cache, now) = (cache(8), Instant::now());
        for known in [Ok(addresses()), Err(Arc::new("no such name".into()))] {
            let (lookup, _pending) = start(&cache, "a", now);
            complete(lookup, known.clone(), 5, now);
            let cached = cache.get_or_join("a", now + Duration::from_millis(4999));
            assert!(matches!(&cached, Cached::Known(result) if *result == known), "{cached:?}");
            let (second, _pending) = start(&cache, "a", now + Duration::from_secs(5));
            complete(second, known, 0, now);
        }
    }

    #[test]
    fn the_least_recently_used_hostname_is_evicted_and_the_bound_is_never_exceeded() {
        let (cache, now) = (cache(2), Instant::now());
        for name in ["a", "b", "a", "c"] {
            if let Cached::Missing(lookup, _pending) = cache.get_or_join(name, now) {
                complete(lookup, Ok(addresses()), 60, now);
            }
            assert!(cache.counts().0 <= 2);
        }
        assert!(matches!(cache.get_or_join("a", now), Cached::Known(_)));
        assert!(matches!(cache.get_or_join("c", now), Cached::Known(_)));
        assert!(matches!(cache.get_or_join("b", now), Cached::Missing(..)));
    }

    #[tokio::test]
    async fn a_lookup_without_a_waiting_caller_is_removed() {
        let (cache, now) = (cache(8), Instant::now());
        let (lookup, result) = start(&cache, "a", now);
        drop(result);
        lookup.wait_unwanted().await;
        assert_eq!((0, 0), cache.counts());
        // Dropping the first lookup does not remove one that was started after it.
        let (_second, _pending) = start(&cache, "a", now);
        drop(lookup);
        assert_eq!((0, 1), cache.counts());
    }

    #[tokio::test]
    async fn dropping_a_lookup_fails_its_waiting_callers() {
        let (cache, now) = (cache(8), Instant::now());
        let (lookup, result) = start(&cache, "a", now);
        drop(lookup);
        assert_eq!(cancelled(), result.wait().await);
        assert_eq!((0, 0), cache.counts());
    }
}
