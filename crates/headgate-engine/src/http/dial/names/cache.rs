//! What is known of names, and which are being asked for: each name once, whoever wants it.
//!
//! Pure but for its lock: time is passed in. What is known is bounded in number; what is being asked for is bounded by the
//! lanes, since a look-up that nobody waits for any more is given up.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lru::LruCache;
use tokio::sync::watch;

use crate::http::dial::names::answer::{Answer, Settled};

/// Names remembered at the most; the least recently used go first.
pub const MAX_NAMES: NonZeroUsize = NonZeroUsize::new(16_384).expect("not zero");

/// Tells those who wait for a name.
type Asking = Arc<watch::Sender<Option<Answer>>>;

#[derive(Debug)]
pub struct Cache {
    names: Mutex<Names>,
}

#[derive(Debug)]
struct Names {
    known: LruCache<Box<str>, (Answer, Instant)>,
    asking: HashMap<Box<str>, Asking>,
}

/// What the cache has on a name.
#[derive(Debug)]
pub enum Found {
    Known(Answer),
    /// Somebody asks.
    Asked(Waiting),
    /// Nobody asks: whoever is told so must.
    Unknown(LookUp, Waiting),
}

/// The wait for a name that is being asked for.
#[derive(Debug)]
pub struct Waiting {
    answer: watch::Receiver<Option<Answer>>,
}

impl Waiting {
    pub async fn answer(mut self) -> Answer {
        match self.answer.wait_for(Option::is_some).await {
            Ok(answer) => (*answer).clone().unwrap_or_else(given_up),
            Err(_) => given_up(),
        }
    }
}

/// The duty to find out about a name. Dropping it tells those who wait that it failed.
#[derive(Debug)]
pub struct LookUp {
    cache: Arc<Cache>,
    pub name: Box<str>,
    asking: Asking,
}

impl Cache {
    pub fn new(max_names: NonZeroUsize) -> Self {
        Self { names: Mutex::new(Names { known: LruCache::new(max_names), asking: HashMap::new() }) }
    }

    pub fn find(self: &Arc<Self>, name: &str, now: Instant) -> Found {
        let mut names = self.lock();
        match names.known.get(name) {
            Some((answer, until)) if now < *until => return Found::Known(answer.clone()),
            _ => {}
        }
        if let Some(asking) = names.asking.get(name) {
            return Found::Asked(Waiting { answer: asking.subscribe() });
        }
        let (sender, answer) = watch::channel(None);
        let asking = Asking::new(sender);
        names.asking.insert(name.into(), asking.clone());
        Found::Unknown(LookUp { cache: self.clone(), name: name.into(), asking }, Waiting { answer })
    }

    /// Names known and names being asked for.
    pub fn len(&self) -> (usize, usize) {
        let names = self.lock();
        (names.known.len(), names.asking.len())
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LookUp {
    /// What was found out, and how long it may be believed.
    pub fn settle(self, settled: Settled, now: Instant) {
        let Settled { answer, lifetime } = settled;
        let mut names = self.cache.lock();
        names.known.put(self.name.clone(), (answer.clone(), now + lifetime));
        self.forget(&mut names);
        drop(names);
        // Whoever is told finds nothing of the look-up any more.
        self.asking.send_replace(Some(answer));
    }

    /// A look-up that nobody wanted may have a successor, which stays.
    fn forget(&self, names: &mut Names) {
        if names.asking.get(&self.name).is_some_and(|asking| Arc::ptr_eq(asking, &self.asking)) {
            names.asking.remove(&self.name);
        }
    }

    /// Waits until nobody waits for the answer.
    pub async fn unwanted(&self) {
        loop {
            self.asking.closed().await;
            let mut names = self.cache.lock();
            // Somebody may have come in the meantime; under the lock, nobody comes.
            if self.asking.receiver_count() == 0 {
                names.asking.remove(&self.name);
                return;
            }
        }
    }
}

impl Drop for LookUp {
    fn drop(&mut self) {
        self.forget(&mut self.cache.lock());
    }
}

fn given_up() -> Answer {
    Err(Arc::new("the look-up was cancelled".into()))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;

    fn addresses() -> Arc<[IpAddr]> {
        [IpAddr::from([127, 0, 0, 1])].into()
    }

    fn cache(names: usize) -> Arc<Cache> {
        Arc::new(Cache::new(NonZeroUsize::new(names).expect("not zero")))
    }

    fn ask(cache: &Arc<Cache>, name: &str, now: Instant) -> (LookUp, Waiting) {
        match cache.find(name, now) {
            Found::Unknown(look_up, waiting) => (look_up, waiting),
            other => panic!("{name} is not unknown: {other:?}"),
        }
    }

    fn settle(look_up: LookUp, answer: Answer, seconds: u64, now: Instant) {
        look_up.settle(Settled { answer, lifetime: Duration::from_secs(seconds) }, now);
    }

    #[tokio::test]
    async fn whoever_asks_for_a_name_meanwhile_gets_the_one_answer() {
        let (cache, now) = (cache(8), Instant::now());
        let (look_up, first) = ask(&cache, "a", now);
        let Found::Asked(second) = cache.find("a", now) else { panic!("it is being asked for") };
        settle(look_up, Ok(addresses()), 0, now);
        assert_eq!([Ok(addresses()), Ok(addresses())], [first.answer().await, second.answer().await]);
    }

    #[test]
    fn an_answer_is_believed_for_its_lifetime_and_no_longer() {
        let (cache, now) = (cache(8), Instant::now());
        for known in [Ok(addresses()), Err(Arc::new("no such name".into()))] {
            let (look_up, _waiting) = ask(&cache, "a", now);
            settle(look_up, known.clone(), 5, now);
            let found = cache.find("a", now + Duration::from_millis(4999));
            assert!(matches!(&found, Found::Known(found) if *found == known), "{found:?}");
            let (again, _waiting) = ask(&cache, "a", now + Duration::from_secs(5));
            settle(again, known, 0, now);
        }
    }

    #[test]
    fn the_name_that_was_not_asked_for_the_longest_goes_first_and_the_bound_is_never_passed() {
        let (cache, now) = (cache(2), Instant::now());
        for name in ["a", "b", "a", "c"] {
            if let Found::Unknown(look_up, _waiting) = cache.find(name, now) {
                settle(look_up, Ok(addresses()), 60, now);
            }
            assert!(cache.len().0 <= 2);
        }
        assert!(matches!(cache.find("a", now), Found::Known(_)));
        assert!(matches!(cache.find("c", now), Found::Known(_)));
        assert!(matches!(cache.find("b", now), Found::Unknown(..)));
    }

    #[tokio::test]
    async fn a_look_up_that_nobody_waits_for_leaves_nothing_behind() {
        let (cache, now) = (cache(8), Instant::now());
        let (look_up, waiting) = ask(&cache, "a", now);
        drop(waiting);
        look_up.unwanted().await;
        assert_eq!((0, 0), cache.len());
        // One that begins now is another, and the end of the first is not its own.
        let (_second, _waiting) = ask(&cache, "a", now);
        drop(look_up);
        assert_eq!((0, 1), cache.len());
    }

    #[tokio::test]
    async fn who_waits_for_a_look_up_that_is_given_up_is_told() {
        let (cache, now) = (cache(8), Instant::now());
        let (look_up, waiting) = ask(&cache, "a", now);
        drop(look_up);
        assert_eq!(given_up(), waiting.answer().await);
        assert_eq!((0, 0), cache.len());
    }
}
