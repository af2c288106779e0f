//! Monitors a job from outside: adds up the workers' figures, and separates the last few seconds from the whole.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use headgate_core::live::Settings;
use headgate_core::schedule::scheduler::SchedulerFigures;
use headgate_core::schedule::throttled::{HostFigures, ThrottledBy, ThrottledTime};
use headgate_core::stall::STALL;
use headgate_table::columns::select::Selection;

use crate::queue::window::Window;
use crate::stats::bottleneck::{BlockingRow, Bottleneck, Stretch, WindowStretch, bottleneck_of};
use crate::stats::bottleneck_kind::BottleneckKind;
use crate::stats::lanes::{LaneTime, Wait};
use crate::stats::progress::{Progress, RowCount};
use crate::stats::report::{Latency, LatencyCounts, Phase, SlowestHost, Snapshot, Summary};
use crate::stats::series::Point;
use crate::stats::throttled::{FigureSource, ThrottledStretch};
use crate::stats::usage::{CoreTime, Moment};
use crate::stats::worker::{Figures, WorkerStats};

/// The stretch of time of "recent" figures.
const RECENT: Duration = Duration::from_secs(5);
/// The minimum interval of two samples; so there are at most eleven.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// A run in which nothing has been in flight for so long waits.
const IDLE: Duration = Duration::from_secs(1);

/// Properties of a job that do not change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub concurrency: usize,
    /// Cores this process may use.
    pub cores: usize,
    pub input_is_pipe: bool,
    pub output_is_pipe: bool,
    /// Rows done by earlier runs of the job.
    pub rows_before: u64,
}

#[derive(Debug)]
pub(crate) struct Monitor {
    started: Instant,
    setting: Setting,
    workers: Vec<Arc<Mutex<WorkerStats>>>,
    row_count: Arc<Mutex<RowCount>>,
    window: Arc<Window>,
    /// `None`: there was nothing to do.
    scheduler: Option<Arc<dyn FigureSource>>,
    /// The columns that the run extracts.
    selection: Option<Arc<Selection>>,
    /// The host that most rows waited for, when rows last waited.
    throttled_host: Option<HostFigures>,
    before: Moment,
    /// The number of rows done when it last changed, and when that was.
    last_row: (u64, Instant),
    /// The same of rows and attempts.
    last_attempt: (u64, Instant),
    samples: VecDeque<CounterSample>,
    /// The time lost to stalls when `samples` began.
    stalled: Duration,
    /// The rate and the bottleneck of the last seconds.
    recently: Option<(f64, Bottleneck)>,
}

/// The counters at one moment; two of them give a stretch of time.
#[derive(Debug, Clone, Copy)]
struct CounterSample {
    at: Instant,
    rows: u64,
    failed: u64,
    throttled: ThrottledTime,
    attempts: u64,
    connections: u64,
    attempt_time: Duration,
    lane_time: LaneTime,
    busy: Duration,
    window_full: Duration,
    cores: Option<CoreTime>,
}

impl Monitor {
    pub(crate) fn new(
        started: Instant,
        setting: Setting,
        workers: Vec<Arc<Mutex<WorkerStats>>>,
        row_count: Arc<Mutex<RowCount>>,
        window: Arc<Window>,
        scheduler: Option<Arc<dyn FigureSource>>,
    ) -> Self {
        Self {
            started,
            setting,
            workers,
            row_count,
            window,
            scheduler,
            selection: None,
            throttled_host: None,
            before: Moment::now(),
            last_row: (0, started),
            last_attempt: (0, started),
            samples: VecDeque::new(),
            stalled: Duration::ZERO,
            recently: None,
        }
    }

    /// Has summaries tell which of these columns never had a value.
    pub(crate) fn extracting(self, selection: Option<Arc<Selection>>) -> Self {
        Self { selection, ..self }
    }

    /// Changes how many attempts may be in flight from now on.
    pub(crate) fn set_concurrency(&mut self, concurrency: usize) {
        self.setting.concurrency = concurrency;
    }

    pub(crate) fn snapshot(&mut self, now: Instant, stopping: bool) -> Snapshot {
        let scheduled = self.scheduled(now);
        let (figures, in_flight, sample) = self.add_up(now, CoreTime::now(), &scheduled);
        if scheduled.host.is_some() {
            self.throttled_host.clone_from(&scheduled.host);
        }
        if self.last_row.0 != sample.rows {
            self.last_row = (sample.rows, now);
        }
        let ended = sample.rows + sample.attempts;
        if self.last_attempt.0 != ended || in_flight > 0 {
            self.last_attempt = (ended, now);
        }
        let elapsed = now.saturating_duration_since(self.started);
        let (requests_per_s, bottleneck) = self.recently(&sample, &figures, &scheduled);
        let input = self.row_count();
        let rows = figures.rows();
        let rows_before = self.setting.rows_before;
        let progress = Progress { input, rows_before, rows, rows_per_s: requests_per_s };
        // Neither a run that stops nor one that is paused, or waits for credentials, does the other rows.
        let waits = matches!(bottleneck.kind, BottleneckKind::Paused | BottleneckKind::Credentials);
        let is_going_on = !stopping && !waits;
        let time_left_s = progress.time_left_s().filter(|_| is_going_on);
        // Rows of one host may take longer than the others, at their rate.
        let is_longer = |time: Duration| match time_left_s {
            Some(left) => left < time.as_secs_f64(),
            None => input.known.is_some() && is_going_on,
        };
        let late = Some(scheduled.late).filter(|late| *late >= STALL).unwrap_or_default();
        let SchedulerFigures { stalls, slowest, now: throttled_by, .. } = scheduled;
        let slowest_hosts: Vec<_> = slowest.into_iter().map(SlowestHost::from).collect();
        let slowest_host = slowest_hosts.first().filter(|host| {
            host.time_left_s.and_then(|left| Duration::try_from_secs_f64(left).ok()).is_some_and(is_longer)
        });
        let (lanes_waiting, is_running) = (self.lanes_waiting(), self.is_running());
        let lacks_rows = throttled_by.is_some() || lanes_waiting.contains_key(&Wait::Input);
        let phase = if sample.attempts == 0 && in_flight == 0 && throttled_by.is_none() {
            Phase::Starting
        } else if lacks_rows && now.saturating_duration_since(self.last_attempt.1) >= IDLE {
            Phase::Waiting
        } else {
            Phase::Running
        };
        Snapshot {
            phase,
            elapsed_s: elapsed.as_secs_f64(),
            rows,
            rows_before,
            rows_known: input.known,
            fraction: progress.fraction(),
            succeeded: figures.succeeded,
            failed: figures.failed,
            in_flight,
            concurrency: self.setting.concurrency as u64,
            requests_per_s,
            requests_per_s_mean: per_second(rows, elapsed),
            p50_us: figures.latency_us.value_at_quantile(0.5),
            p99_us: figures.latency_us.value_at_quantile(0.99),
            latencies: LatencyCounts::from(&figures.latency_us),
            received_bytes: figures.received_bytes,
            time_left_s: slowest_host.and_then(|host| host.time_left_s).or(time_left_s),
            slowest_host: slowest_host.cloned(),
            slowest_hosts,
            throttled_by,
            throttled_s: throttled_s(&sample.throttled),
            lanes_waiting,
            attempts: sample.attempts,
            pauses: scheduled.pauses,
            paused_hosts: scheduled.paused_hosts,
            breakers_opened: scheduled.breakers_opened,
            open_breakers: scheduled.open_breakers,
            network_down_s: scheduled.network_down.map(|time| time.as_secs_f64()),
            commit: None,
            since_last_row_s: now.saturating_duration_since(self.last_row.1).as_secs_f64(),
            unresponsive_s: if is_running { scheduled.late.as_secs_f64() } else { 0.0 },
            writing_s: None,
            set: Settings::new(),
            requests: 0,
            max_requests: None,
            cost: None,
            max_cost: None,
            stopping,
            stalled_s: stalls.total.as_secs_f64(),
            bottleneck,
            since_start: Point {
                ms: elapsed.as_millis() as u64,
                // A stall belongs to the interval in which it ends, also before a worker has noticed it.
                stalled_ms: (stalls.total + late).as_millis() as u64,
                in_flight,
                concurrency: self.setting.concurrency as u64,
                ..Point::of(&figures)
            },
        }
    }

    pub(crate) fn summary(&self, end: &Moment) -> Summary {
        let scheduled = self.scheduled(end.at);
        let (figures, _, sample) = self.add_up(end.at, end.cores, &scheduled);
        let elapsed = end.at.saturating_duration_since(self.started);
        let extracted = self.selection.iter().flat_map(|selection| figures.extracted.notes(selection));
        let bottleneck = bottleneck_of(&self.stretch(&self.start(), &sample, &figures, &scheduled));
        Summary {
            rows: figures.rows(),
            rows_known: self.row_count().known,
            succeeded: figures.succeeded,
            failed: figures.failed,
            abandoned: figures.abandoned,
            statuses: figures.statuses(),
            errors: figures.failures.counts(),
            error_examples: figures.failures.examples(),
            elapsed_s: elapsed.as_secs_f64(),
            requests_per_s: per_second(figures.rows(), elapsed),
            latency_us: Latency::from(&figures.latency_us),
            received_bytes: figures.received_bytes,
            peak_rss_bytes: end.usage.peak_rss_bytes,
            // A job with nothing to do ends before its monitor starts.
            cpu_s: (end.usage.cpu_s - self.before.usage.cpu_s).max(0.0),
            bottleneck,
            retries: figures.retries.causes.clone(),
            not_retried: figures.retries.not_retried,
            resent: figures.resent,
            headers_skipped: figures.headers_skipped,
            requests: 0,
            max_requests: None,
            cost: None,
            max_cost: None,
            throttled_s: throttled_s(&sample.throttled),
            pauses: scheduled.pauses,
            stalled_s: scheduled.stalls.total.as_secs_f64(),
            stopped_by: None,
            output: String::new(),
            interrupted: false,
            reader_gone: false,
            notes: figures.lowercase_methods.note().into_iter().chain(extracted).collect(),
            failure: None,
            job: None,
        }
    }

    fn scheduled(&self, now: Instant) -> SchedulerFigures {
        self.scheduler.as_ref().map(|scheduler| scheduler.figures(now)).unwrap_or_default()
    }

    /// Returns whether a worker has a share of the run: after the last row, only the sink runs.
    fn is_running(&self) -> bool {
        self.workers.iter().any(|worker| worker.lock().unwrap_or_else(PoisonError::into_inner).busy.is_running())
    }

    /// Returns how many lanes wait for each thing that any of them waits for.
    fn lanes_waiting(&self) -> BTreeMap<Wait, u64> {
        let mut waiting = BTreeMap::new();
        for worker in &self.workers {
            let worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            for wait in Wait::ALL {
                *waiting.entry(wait).or_default() += u64::from(worker.lanes.waiting(wait));
            }
        }
        waiting.retain(|_, lanes| *lanes > 0);
        waiting
    }

    fn row_count(&self) -> RowCount {
        *self.row_count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_up(
        &self,
        now: Instant,
        cores: Option<CoreTime>,
        scheduled: &SchedulerFigures,
    ) -> (Figures, u64, CounterSample) {
        let mut figures = Figures::default();
        let mut sample = CounterSample::zero(now);
        let mut in_flight = 0;
        for worker in &self.workers {
            let worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            figures.add(&worker.figures);
            sample.lane_time.add(&worker.lanes.time(now));
            in_flight += u64::from(worker.lanes.in_flight());
            sample.busy += worker.busy.busy();
        }
        sample.cores = cores;
        sample.window_full = self.window.full_for(now);
        sample.rows = figures.rows();
        sample.failed = figures.failed;
        sample.throttled = scheduled.throttled;
        sample.attempts = figures.attempted;
        sample.connections = figures.connections;
        sample.attempt_time = Duration::from_micros(figures.elapsed_us);
        (figures, in_flight, sample)
    }

    /// Returns the rate and the bottleneck of the last seconds.
    fn recently(&mut self, now: &CounterSample, figures: &Figures, scheduled: &SchedulerFigures) -> (f64, Bottleneck) {
        if self.stalled != scheduled.stalls.total || scheduled.late >= STALL {
            self.stalled = scheduled.stalls.total;
            // Each wait goes on in a stall, whatever it was for. Figures of before hold until there are some from its end.
            self.samples.clear();
            if let Some(recently) = &self.recently {
                self.samples.push_back(*now);
                return recently.clone();
            }
        }
        let recent = self.recent(now);
        let requests_per_s = per_second(now.rows - recent.rows, now.at.saturating_duration_since(recent.at));
        let recently = (requests_per_s, bottleneck_of(&self.stretch(&recent, now, figures, scheduled)));
        self.recently = Some(recently.clone());
        recently
    }

    /// Returns the sample that recent figures are counted from, and remembers `now` for later ones.
    fn recent(&mut self, now: &CounterSample) -> CounterSample {
        while self.samples.get(1).is_some_and(|second| now.at.saturating_duration_since(second.at) >= RECENT) {
            self.samples.pop_front();
        }
        if self.samples.back().is_none_or(|last| now.at.saturating_duration_since(last.at) >= SAMPLE_EVERY) {
            self.samples.push_back(*now);
        }
        match self.samples.front() {
            Some(first) if first.at < now.at => *first,
            _ => self.start(),
        }
    }

    fn start(&self) -> CounterSample {
        CounterSample { cores: self.before.cores, ..CounterSample::zero(self.started) }
    }

    fn stretch(
        &self,
        from: &CounterSample,
        to: &CounterSample,
        figures: &Figures,
        scheduled: &SchedulerFigures,
    ) -> Stretch {
        Stretch {
            wall: to.at.saturating_duration_since(from.at),
            attempts: to.attempts - from.attempts,
            connections: to.connections - from.connections,
            attempt_time: to.attempt_time.saturating_sub(from.attempt_time),
            lane_time: to.lane_time.since(&from.lane_time),
            busy: to.busy.saturating_sub(from.busy),
            cores_busy: to.cores.zip(from.cores).and_then(|(to, from)| to.busy_since(from)),
            rows_known: self.row_count().known,
            workers: self.workers.len(),
            concurrency: self.setting.concurrency,
            cores: self.setting.cores,
            output_is_pipe: self.setting.output_is_pipe,
            input_is_pipe: self.setting.input_is_pipe,
            throttled: self.throttled(from, to, scheduled),
            rows: to.rows - from.rows,
            failed: to.failed - from.failed,
            failed_with: figures.failures.counts().into_iter().max_by_key(|(_, count)| *count).map(|(with, _)| with),
            window: WindowStretch {
                rows: self.window.size(),
                full: to.window_full.saturating_sub(from.window_full),
                blocking_row: self.window.full_at().map(|row| BlockingRow { row, host: self.host_of(row) }),
            },
        }
    }

    fn throttled(&self, from: &CounterSample, to: &CounterSample, hosts: &SchedulerFigures) -> ThrottledStretch {
        let Some(scheduler) = &self.scheduler else { return ThrottledStretch::default() };
        let SchedulerFigures { host, waiting, paused_hosts, network_down, .. } = hosts;
        ThrottledStretch {
            time: to.throttled.since(&from.throttled),
            pause_left: host.as_ref().and_then(|host| host.until).map(|until| until.saturating_duration_since(to.at)),
            host: host.clone().or_else(|| self.throttled_host.clone()),
            waiting: *waiting,
            paused_hosts: *paused_hosts,
            network_down: *network_down,
            limits: scheduler.limits(),
        }
    }

    /// Returns the host of a row, if a worker has named it as the one that keeps the window full.
    fn host_of(&self, row: u64) -> Option<Box<str>> {
        self.workers.iter().find_map(|worker| {
            let worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            worker.slow_row.as_ref().filter(|slow| slow.ordinal == row).map(|slow| slow.host.clone())
        })
    }
}

impl CounterSample {
    fn zero(at: Instant) -> Self {
        Self {
            at,
            rows: 0,
            failed: 0,
            throttled: ThrottledTime::default(),
            attempts: 0,
            connections: 0,
            attempt_time: Duration::ZERO,
            lane_time: LaneTime::default(),
            busy: Duration::ZERO,
            window_full: Duration::ZERO,
            cores: None,
        }
    }
}

fn throttled_s(throttled: &ThrottledTime) -> BTreeMap<ThrottledBy, f64> {
    let times = ThrottledBy::ALL.into_iter().map(|by| (by, throttled.by(by).as_secs_f64()));
    times.filter(|(_, seconds)| *seconds > 0.0).collect()
}

fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}
