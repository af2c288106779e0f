//! How long results wait for a commit: briefly at the start of a run, so that an early crash costs little, and longer in a run
//! that lasts for days, so that it does not leave a part for every ten seconds.

use std::time::Duration;

use headgate_core::defaults::DEFAULT_COMMIT_INTERVAL;

/// The interval before the first commit of a run. It doubles with each commit, up to the requested interval.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);
/// By default, an interval grows to the elapsed time divided by this.
const SHARE_OF_ELAPSED: u32 = 1000;
/// The longest interval where the user gave none.
const LONGEST_DEFAULT_INTERVAL: Duration = Duration::from_mins(1);

/// Returns how long the first uncommitted row of a run may wait, after so many commits and so much time of the run.
/// The interval that the user gave is never exceeded.
pub(super) fn interval(commits: u64, elapsed: Duration, commit_every: Option<Duration>) -> Duration {
    let longest = commit_every
        .unwrap_or_else(|| (elapsed / SHARE_OF_ELAPSED).clamp(DEFAULT_COMMIT_INTERVAL, LONGEST_DEFAULT_INTERVAL));
    let doubled = 2_u32.saturating_pow(u32::try_from(commits).unwrap_or(u32::MAX));
    FIRST_INTERVAL.saturating_mul(doubled).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_S: u64 = 3600;
    const WEEK_S: u64 = 7 * 24 * HOUR_S;

    #[test]
    fn an_interval_doubles_up_to_the_requested_one_and_grows_with_the_elapsed_time_only_by_default() {
        let every = |milliseconds| Some(Duration::from_millis(milliseconds));
        for (expected_ms, commits, elapsed_s, commit_every) in [
            (1_000, 0, 0, None),
            (2_000, 1, 1, None),
            (4_000, 2, 3, None),
            (8_000, 3, 7, None),
            (10_000, 4, 15, None),
            (10_000, 1_000, 10_000, None),
            (10_001, 1_000, 10_001, None),
            (36_000, 5_000, 10 * HOUR_S, None),
            (60_000, 9_000, WEEK_S, None),
            (60_000, u64::MAX, 100 * WEEK_S, None),
            // Rows that come late in a run wait no longer than those of its start.
            (1_000, 0, WEEK_S, None),
            (1_000, 0, 0, every(10_000)),
            (8_000, 3, 0, every(10_000)),
            (10_000, 4, WEEK_S, every(10_000)),
            (10_000, u64::MAX, WEEK_S, every(10_000)),
            (64_000, 6, WEEK_S, every(600_000)),
            (600_000, 99, WEEK_S, every(600_000)),
            (500, 0, 0, every(500)),
            (500, 7, WEEK_S, every(500)),
            (0, 0, 0, every(0)),
        ] {
            let found = interval(commits, Duration::from_secs(elapsed_s), commit_every);
            assert_eq!(Duration::from_millis(expected_ms), found, "{commits} commits, {elapsed_s} s, {commit_every:?}");
        }
    }

    #[test]
    fn a_job_of_a_week_is_committed_a_fifth_as_often_as_with_an_interval_of_ten_seconds() {
        let commits_in_a_week = |commit_every| {
            let (mut commits, mut elapsed) = (0, Duration::ZERO);
            while elapsed < Duration::from_secs(WEEK_S) {
                elapsed += interval(commits, elapsed, commit_every);
                commits += 1;
            }
            commits
        };
        assert_eq!(11_876, commits_in_a_week(None));
        assert_eq!(60_483, commits_in_a_week(Some(Duration::from_secs(10))));
    }
}
