//! The memory and time that uploads take, whatever servers do.

use super::*;

#[test]
fn uploads_to_a_server_that_reads_nothing_are_bounded_in_memory_which_is_released() {
    const BUDGET_BYTES: u64 = 4 << 20;
    const STRETCH_BYTES: u64 = 64 << 10;
    const UPLOADS: usize = 60;
    for is_http2 in [false, true] {
        let (release, stays) = std::sync::mpsc::channel::<()>();
        let stays = Arc::new(Mutex::new(stays));
        let server: Scripted = if is_http2 {
            http2::start(100, |peer, _| {
                loop {
                    peer.read()?;
                }
            })
        } else {
            Scripted::start(move |mut stream, _| {
                read_head(&mut stream);
                let _ = stays.lock().unwrap().recv();
            })
        };
        let options = EngineOptions { threads: Some(2), max_memory: Some(BUDGET_BYTES), ..EngineOptions::default() };
        let engine = Engine::start(&options).expect("an engine");
        let budget = engine.memory();
        let mut uploads = Uploads::new();
        uploads.request.http2_prior_knowledge = is_http2;
        uploads.concurrency = UPLOADS;
        File::create(uploads.path("large")).unwrap().set_len(1 << 30).unwrap();
        let large = uploads.piece("large");
        for _ in 0..UPLOADS {
            uploads.add(server.url("/"), "PUT", [large.clone()]);
        }
        let (_, sink) = Collector::new();
        let run = Run::start(&engine, uploads.passage(sink)).expect("a run");
        eventually("what uploads may have of it is used up", || {
            // Some memory is reserved for responses.
            assert!(budget.used() <= BUDGET_BYTES / 2, "{}", budget.used());
            budget.used() > BUDGET_BYTES / 4 - STRETCH_BYTES
        });
        run.abort();
        drop(release);
        assert!(run.wait(MAX_WAIT));
        eventually("all memory is released", || budget.used() == 0);
    }
}

#[test]
fn files_are_sent_even_if_no_memory_is_free() {
    const BUDGET_BYTES: u64 = 1 << 20;
    /// The part of the budget for responses.
    const FREE_BYTES: u64 = 16 << 10;
    let body = bytes(300_000);
    let mut uploads = Uploads::new();
    for (name, _server, at, request) in servers(uploads.directory.path()) {
        uploads.request = request;
        let options = EngineOptions { threads: Some(1), max_memory: Some(BUDGET_BYTES), ..EngineOptions::default() };
        let engine = Engine::start(&options).expect("an engine");
        let mut all = engine.memory().reservation();
        assert!(all.try_grow_within(BUDGET_BYTES - FREE_BYTES));
        let file = uploads.file("file", &body);
        for _ in 0..3 {
            uploads.add(format!("{at}/hash"), "PUT", [file.clone()]);
        }
        let ended = uploads.ended_on(&engine);
        assert_eq!(vec![hash_of(&body); 3], ended.iter().map(json).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn the_idle_timeout_bounds_the_wait_for_a_server_that_reads_nothing_of_a_file() {
    for is_http2 in [false, true] {
        let held: Mutex<Vec<TcpStream>> = Mutex::default();
        let server = if is_http2 {
            http2::start(100, |peer, _| {
                loop {
                    peer.read()?;
                }
            })
        } else {
            Scripted::start(move |stream, _| held.lock().unwrap().push(stream))
        };
        let mut uploads = Uploads::new();
        uploads.request.http2_prior_knowledge = is_http2;
        uploads.request.idle_timeout = Some(Duration::from_millis(200));
        File::create(uploads.path("large")).unwrap().set_len(1 << 30).unwrap();
        let large = uploads.piece("large");
        uploads.add(server.url("/"), "PUT", [large]);
        let ended = &uploads.ended()[0];
        let expected = (Some("timeout"), "the server accepted no bytes of the request for too long");
        assert_eq!(expected, (ended.error.as_deref(), &*ended.message));
    }
}

#[test]
fn a_large_file_takes_no_more_memory_than_a_small_one() {
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let output =
        alone.args(["--ignored", "--exact", "uploads::memory::a_process_that_sends_a_large_file"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "it needs a process of its own, and gets it from the test above"]
fn a_process_that_sends_a_large_file() {
    const FILE_BYTES: u64 = 400 << 20;
    const BESIDE_BYTES: usize = 24 << 20;
    let server = Scripted::start(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let length: u64 =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
            let came = std::io::copy(&mut (&mut stream).take(length), &mut std::io::sink()).unwrap();
            stream.write_all(response(&came.to_string()).as_bytes()).unwrap();
        }
    });
    let mut uploads = Uploads::new();
    File::create(uploads.path("large")).unwrap().set_len(FILE_BYTES).unwrap();
    let [small, large] = [uploads.file("small", "a"), uploads.piece("large")];
    let engine = engine(2);
    uploads.add(server.url("/"), "PUT", [small]);
    assert_eq!(b"1".to_vec(), uploads.ended_on(&engine)[0].body);
    let before = resident("VmRSS:");
    // The peak is measured from here.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    for _ in 0..4 {
        uploads.add(server.url("/"), "PUT", [large.clone()]);
    }
    for ended in uploads.ended_on(&engine) {
        assert_eq!(FILE_BYTES.to_string().into_bytes(), ended.body);
    }
    let more = resident("VmHWM:").saturating_sub(before);
    assert!(more <= BESIDE_BYTES, "{more} bytes more");
}

/// Returns a figure of this process, in bytes.
fn resident(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}
