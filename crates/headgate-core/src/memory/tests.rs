use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};

use proptest::prelude::*;

use super::*;

/// A body that waits for bytes.
struct Waiting {
    grown: Pin<Box<dyn Future<Output = Reservation>>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Waiting {
    fn begin(mut body: Reservation, bytes: u64) -> Self {
        let grown = Box::pin(async move {
            body.grow(bytes).await;
            body
        });
        Self { grown, woken: Arc::default() }
    }

    /// Returns the reservation, once it has its bytes.
    fn poll(&mut self) -> Option<Reservation> {
        let waker = Waker::from(self.woken.clone());
        match self.grown.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(body) => Some(body),
            Poll::Pending => None,
        }
    }

    fn wakes(&self) -> usize {
        self.woken.0.load(Ordering::Relaxed)
    }
}

/// Returns a budget of 100 bytes that is used up, by one body within the limit and by a complete one beyond it.
fn used_up() -> (MemoryBudget, Reservation, Reservation) {
    let budget = MemoryBudget::new(100);
    let (mut within, mut beyond) = (budget.reservation(), budget.reservation());
    assert!(within.try_grow(100) && beyond.try_grow(1));
    beyond.settle();
    (budget, within, beyond)
}

fn begin(budget: &MemoryBudget, bytes: u64) -> Waiting {
    let mut waiting = Waiting::begin(budget.reservation(), bytes);
    assert!(waiting.poll().is_none(), "no memory is free");
    waiting
}

#[test]
fn a_budget_is_enforced_and_released() {
    let budget = MemoryBudget::new(100);
    let mut first = budget.reservation();
    assert!(first.try_grow(100));
    drop(first);
    assert_eq!(0, budget.used());
}

#[test]
fn an_overdrawn_body_may_continue_to_its_end() {
    let budget = MemoryBudget::new(100);
    let (mut first, mut second) = (budget.reservation(), budget.reservation());
    assert!(first.try_grow(60) && second.try_grow(60));
    second.settle();
    assert!(!first.try_grow(60), "another has the permit");
    assert!(second.try_grow(60), "it still has the permit");
    second.settle();
    assert!(!first.try_grow(60));
    drop(second);
    assert!(first.try_grow(60));
    drop(first);
    assert_eq!((0, 1), (budget.used(), budget.run.overdraft.available_permits()));
}

#[test]
fn one_body_at_a_time_may_overdraw() {
    let budget = MemoryBudget::new(100);
    let (mut first, mut second) = (budget.reservation(), budget.reservation());
    assert!(first.try_grow(60));
    assert!(second.try_grow(60), "the first reservation beyond the budget overdraws");
    assert!(!first.try_grow(60), "the next has to wait");

    second.settle();
    assert!(!first.try_grow(60), "a whole body is in memory all the same");
    assert_eq!(120, budget.used());

    drop(second);
    assert!(first.try_grow(60), "a body that is written lets the next overdraw");
    assert_eq!(120, budget.used());
}

#[test]
fn a_run_whose_bodies_stay_leaves_another_run_one_body_at_a_time() {
    let budget = MemoryBudget::new(100);
    let other = budget.for_new_run();
    let (mut first, mut second) = (budget.reservation(), budget.reservation());
    assert!(first.try_grow(100) && second.try_grow(50), "the second overdraws");
    second.settle();
    for _ in 0..3 {
        let (mut body, mut next) = (other.reservation(), other.reservation());
        assert!(body.try_grow(30) && body.try_grow(30));
        assert!(!next.try_grow(1), "one at a time");
        body.settle();
        assert!(!next.try_grow(1), "until it is written");
    }
    drop(first);
    let (mut body, mut next) = (other.reservation(), other.reservation());
    assert!(body.try_grow(60) && next.try_grow(40), "all of them fit within the limit");
    assert_eq!((150, 100), (budget.used(), other.used()));
}

#[tokio::test]
async fn a_waiting_body_continues_when_another_is_written() {
    let budget = MemoryBudget::new(10);
    let (mut first, mut second, mut third) = (budget.reservation(), budget.reservation(), budget.reservation());
    assert!(first.try_grow(10));
    assert!(second.try_grow(5), "overdraws");
    second.settle();
    let waiting = async {
        third.grow(5).await;
        third.bytes()
    };
    let (granted, ()) = tokio::join!(waiting, async { drop((first, second)) });
    assert_eq!(5, granted);
}

#[test]
fn the_task_that_has_waited_longest_is_served_first_and_none_overtakes_it() {
    let (budget, mut within, _beyond) = used_up();
    let (mut first, mut second) = (begin(&budget, 60), begin(&budget, 10));
    within.shrink_to(50);
    assert!(second.poll().is_none(), "it would fit, but it is not its turn");
    assert!(!budget.reservation().try_grow(1), "a later reservation waits for its turn, too");
    within.shrink_to(40);
    assert!(second.poll().is_none());
    let first = first.poll().expect("it has its 60 bytes");
    drop(first);
    assert_eq!(Some(10), second.poll().map(|body| body.bytes()));
}

#[test]
fn released_bytes_wake_as_many_tasks_as_they_suffice_for() {
    let (budget, mut within, beyond) = used_up();
    let mut waiting: Vec<Waiting> = (0..10).map(|_| begin(&budget, 10)).collect();
    let wakes = |waiting: &[Waiting]| waiting.iter().map(Waiting::wakes).collect::<Vec<_>>();
    within.shrink_to(75);
    assert_eq!([1, 1, 0, 0, 0, 0, 0, 0, 0, 0], *wakes(&waiting));
    let bodies: Vec<_> = waiting[..2].iter_mut().map(|body| body.poll().expect("its turn")).collect();
    drop(beyond);
    assert_eq!([0, 0, 0, 0, 0, 0, 0], wakes(&waiting)[3..], "one may overdraw");
    assert!(waiting[2].poll().is_some_and(|body| body.overdrawn == 10));
    drop(bodies);
}

#[test]
fn a_task_that_needs_more_than_the_limit_keeps_no_other_waiting() {
    let (budget, mut within, beyond) = used_up();
    let mut too_large = begin(&budget, 101);
    let mut small = begin(&budget, 10);
    within.shrink_to(90);
    assert!(small.poll().is_some());
    drop(beyond);
    assert_eq!(Some(101), too_large.poll().map(|body| body.bytes()), "beyond the limit it can");
}

#[test]
fn transferred_bytes_stay_reserved() {
    let (budget, mut within, beyond) = used_up();
    let mut waiting = begin(&budget, 1);
    let mut other = budget.reservation();
    within.transfer(&mut other, 30);
    assert_eq!((70, 30, 101), (within.bytes(), other.bytes(), budget.used()));
    within.transfer(&mut other, 1000);
    assert_eq!((0, 100, 101), (within.bytes(), other.bytes(), budget.used()));
    assert_eq!(0, waiting.wakes());
    drop((within, other, beyond));
    assert_eq!(0, waiting.poll().map_or(1, |body| body.overdrawn));
    assert_eq!(0, budget.used());
}

#[tokio::test]
async fn a_body_waits_on_one_thread_for_bytes_that_another_releases() {
    let budget = MemoryBudget::new(10);
    for _ in 0..1000 {
        let (mut first, mut second) = (budget.reservation(), budget.reservation());
        assert!(first.try_grow(10) && second.try_grow(10), "the second overdraws");
        second.settle();
        let mut third = budget.reservation();
        let other_thread = std::thread::spawn(move || drop((first, second)));
        third.grow(10).await;
        assert_eq!(10, third.bytes());
        other_thread.join().expect("no panic");
    }
}

const BODIES: usize = 6;
const LIMIT: u64 = 100;
const MAX_BODY_BYTES: u64 = 40;

proptest! {
    #[test]
    fn reservations_never_exceed_the_budget_by_more_than_a_body(
        steps in proptest::collection::vec((0..BODIES, 1_u64..30, 0..4), 0..200),
    ) {
        let budget = MemoryBudget::new(LIMIT);
        let mut bodies: Vec<Reservation> = (0..BODIES).map(|_| budget.reservation()).collect();
        let mut whole = [false; BODIES];
        for (at, bytes, step) in steps {
            if step == 0 {
                bodies[at] = budget.reservation();
                whole[at] = false;
            } else if whole[at] || bodies[at].bytes() + bytes > MAX_BODY_BYTES {
                bodies[at].settle();
                whole[at] = true;
            } else {
                bodies[at].try_grow(bytes);
            }
            prop_assert_eq!(bodies.iter().map(Reservation::bytes).sum::<u64>(), budget.used());
            prop_assert!(budget.used() <= LIMIT + MAX_BODY_BYTES, "{}", budget.used());
        }
        // However the budget is used up: when the sink has written the complete bodies, some body can finish.
        for (at, body) in bodies.iter_mut().enumerate().filter(|(at, _)| whole[*at]) {
            prop_assert!(!body.overdraws, "{at}");
            *body = budget.reservation();
        }
        prop_assert!(bodies.iter_mut().any(|body| body.try_grow(MAX_BODY_BYTES)));
        drop(bodies);
        prop_assert_eq!(0, budget.used());
    }

    #[test]
    fn no_bytes_are_lost_and_all_waiting_tasks_are_served_whichever_are_cancelled(
        steps in proptest::collection::vec((0..BODIES, 1_u64..=MAX_BODY_BYTES, 0..4), 0..200),
    ) {
        let budget = MemoryBudget::new(LIMIT);
        let runs = [budget.clone(), budget.for_new_run()];
        let mut waiting: Vec<Option<Waiting>> = (0..BODIES).map(|_| None).collect();
        let mut whole: Vec<Reservation> = Vec::new();
        for (at, bytes, step) in steps {
            match step {
                0 => drop(waiting[at].take()),
                1 => whole.truncate(at),
                2 if waiting[at].is_none() => {
                    waiting[at] = Some(Waiting::begin(runs[at % 2].reservation(), bytes));
                }
                _ => {
                    if let Some(mut body) = waiting[at].as_mut().and_then(Waiting::poll) {
                        waiting[at] = None;
                        body.settle();
                        whole.push(body);
                    }
                }
            }
            let within: u64 = whole.iter().map(|body| body.bytes).sum();
            prop_assert!(within <= LIMIT, "{within}");
            prop_assert!(whole.iter().filter(|body| body.overdrawn > 0).count() <= runs.len());
        }
        drop(whole);
        // Each body is woken when its turn has come, and need not be polled before.
        for body in &mut waiting {
            drop(body.take_if(|body| body.poll().is_some()));
        }
        for _ in 0..BODIES {
            for body in &mut waiting {
                if let Some(mut body) = body.take_if(|body| body.wakes() > 0) {
                    prop_assert!(body.poll().is_some());
                }
            }
        }
        prop_assert!(waiting.iter().all(Option::is_none));
        prop_assert_eq!(0, budget.used());
        prop_assert!(runs.iter().all(|run| run.run.overdraft.available_permits() == 1));
    }
}

#[test]
fn an_empty_reservation_takes_over_the_run_of_the_one_that_it_absorbs() {
    let budget = MemoryBudget::new(10);
    let mut gathered = MemoryBudget::new(0).reservation();
    for _ in 0..2 {
        let mut body = budget.reservation();
        assert!(body.try_grow(15), "what was overdrawn before was released");
        gathered.absorb(body);
        assert_eq!(15, budget.used());
        drop(std::mem::replace(&mut gathered, MemoryBudget::new(0).reservation()));
        assert_eq!(0, budget.used());
    }
}
