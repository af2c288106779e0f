//! Every row of the input is one row of the result.

use crate::harness::{Rig, ordinals, server, url};

const THREADS: [usize; 4] = [1, 2, 3, 5];

#[test]
fn every_line_of_a_file_is_one_row_of_the_result() {
    let server = server();
    for threads in THREADS {
        for count in [0_u64, 1, 2, 3000] {
            let urls: Vec<String> = (0..count).map(|row| url(server.address(), &format!("/{row}"))).collect();
            let rows = Rig::urls(&urls).concurrency(32, threads).rows();
            assert_eq!((0..count).collect::<Vec<_>>(), ordinals(&rows), "{threads} threads");
            assert_eq!(urls, rows.into_iter().map(|row| row.url).collect::<Vec<_>>());
        }
    }
}

#[test]
fn every_url_of_a_pattern_is_one_row_of_the_result() {
    let server = server();
    for threads in THREADS {
        for count in [1_u64, 2, 3000] {
            let rows = Rig::new(url(server.address(), &format!("/[1-{count}]"))).concurrency(32, threads).rows();
            assert_eq!((0..count).collect::<Vec<_>>(), ordinals(&rows), "{threads} threads");
            assert_eq!(url(server.address(), &format!("/{count}")), rows[count as usize - 1].url);
        }
    }
}

#[test]
fn a_response_belongs_to_its_own_row() {
    let server = server();
    let rows = Rig::new(url(server.address(), "/echo/[0-1999]")).concurrency(50, 3).rows();
    assert_eq!(2000, rows.len());
    for row in rows {
        assert_eq!(format!("/echo/{}", row.row), row.echo().path);
    }
}

#[test]
fn only_the_first_rows_can_be_requested() {
    let server = server();
    let mut rig = Rig::new(url(server.address(), "/[1-1000000000]"));
    rig.options.source.max_rows = Some(7);
    assert_eq!((0..7).collect::<Vec<_>>(), ordinals(&rig.rows()));
    assert_eq!(7, server.statistics().requests);
}

#[test]
fn an_invalid_row_is_in_the_result_and_delays_no_other_row() {
    let server = server();
    let good = url(server.address(), "/good");
    let rows = Rig::urls(["no url", &good, "ftp://example.com/", &good]).rows();
    let kinds: Vec<_> = rows.iter().map(|row| (row.kind(), row.attempts)).collect();
    assert_eq!(vec![(Some("invalid_request"), 0), (None, 1), (Some("invalid_request"), 0), (None, 1)], kinds);
    assert_eq!(2, server.statistics().requests);
}
