//! Carries out what the run's [`Network`](headgate_core::schedule::network::Network) requests: connects to earlier responders,
//! and stops the run when none can be reached for too long.

use std::rc::Rc;
use std::sync::PoisonError;
use std::time::Duration;

use headgate_core::clock;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::random::Rng;
use headgate_core::schedule::network::{CHECK_TIME, CHECKED_HOSTS, Checked, NetworkAction};
use headgate_http::dial::connect::ConnectBy;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::engine::share::Share;

const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Share {
    /// Watches the network for the run. All workers do, and one of them gets [`NetworkAction::Check`].
    pub(super) async fn watch_network(&self) {
        let mut interval = tokio::time::interval(LOOK_EVERY);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let scheduler = &self.shared.scheduler;
            if !scheduler.is_needed() {
                continue;
            }
            // Most looks find nothing to do, and so notify no worker.
            let step = {
                let (mut scheduler, now) = scheduler.lock_at(clock::now());
                scheduler.network_step(now)
            };
            match step {
                NetworkAction::Wait => {}
                NetworkAction::Check => {
                    let checked = self.check_network().await;
                    scheduler.change_at(clock::now(), |scheduler, now| scheduler.network_checked(checked, now));
                    self.wake();
                }
                NetworkAction::Stop(time) => {
                    let failure = self.shared.last_unreached.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let failure = failure.map(|failure| format!(" ({failure})")).unwrap_or_default();
                    let time = time.as_secs_f64();
                    self.shared.stop_run(message!(
                        "no host could be reached for {time} s{failure}: check the network and the URLs, or wait longer with ",
                        OptionName::NetworkDownAfter
                    ));
                }
            }
        }
    }

    async fn check_network(&self) -> Checked {
        let responders = &self.shared.responders;
        let by = ConnectBy { time: clock::now() + CHECK_TIME, option: OptionName::ConnectTimeout };
        let mut connecting = JoinSet::new();
        for origin in responders.sample(CHECKED_HOSTS, &mut Rng::new()) {
            let (client, route) = (Rc::clone(&self.client), self.preparer.borrow().route(origin));
            connecting.spawn_local(async move { client.reaches(&route, by).await });
        }
        while let Some(reached) = connecting.join_next().await {
            if reached.unwrap_or(false) {
                return Checked::Reached;
            }
        }
        if responders.has_responded() { Checked::Unreachable } else { Checked::NoHost }
    }
}
