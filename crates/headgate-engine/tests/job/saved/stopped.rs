//! Runs that end while threads write bodies to files.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

use headgate_core::files::Directory;
use headgate_core::files::storage::Storage;
use headgate_engine::{Engine, Run};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{check, saving};
use crate::harness::{MAX_WAIT, Rig, eventually};
use crate::scripted::{Scripted, read_head, response};

/// More bytes than a pipe holds.
const BYTES: usize = 300_000;

/// A disk that opens a pipe instead of a new file, and waits for a reader.
#[derive(Debug)]
struct PipesOpen(Directory);

impl Storage for PipesOpen {
    fn directory(&self) -> &Directory {
        &self.0
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo()) {
            return File::create(path);
        }
        self.0.create(path, mode)
    }
}

fn start(rig: &Rig, engine: Option<&Engine>) -> Result<Run, String> {
    let storage = |directory| Arc::new(PipesOpen(directory)) as Arc<dyn Storage>;
    let started = match engine {
        Some(engine) => Run::job_on(engine, &rig.options, &storage),
        None => Run::job_with(&rig.options, &storage),
    };
    started.map_err(|error| error.to_string())
}

#[test]
fn a_resumed_job_meets_no_writing_thread_of_the_run_before() {
    for shares_engine in [false, true] {
        // The first time, the file of the body is a pipe without a reader, so the thread that writes it blocks.
        let pipe = Arc::<OnceLock<PathBuf>>::default();
        let body = "x".repeat(BYTES);
        let (its, reply) = (pipe.clone(), response(&body));
        let server = Scripted::start(move |mut stream, number| {
            while read_head(&mut stream).is_some() {
                if number == 0 {
                    mkfifo(its.get().unwrap(), Mode::S_IRWXU).unwrap();
                }
                let _ = stream.write_all(reply.as_bytes());
            }
        });
        let rig = saving("{row}.txt", [server.url("/")]);
        pipe.set(rig.path("out/_headgate/tmp/b-0")).unwrap();
        let engine = shares_engine.then(|| Engine::start(&rig.options.engine).unwrap());
        let run = start(&rig, engine.as_ref()).unwrap();
        eventually("its server is requested", || pipe.get().unwrap().exists());
        let mut written = File::open(pipe.get().unwrap()).unwrap();
        written.read_exact(&mut [0]).unwrap();
        run.abort();
        assert!(run.wait(MAX_WAIT), "the waiting caller is not blocked");
        let Err(refused) = start(&rig, engine.as_ref()) else { panic!("it still writes") };
        assert!(refused.contains("is writing to"), "{refused}");

        let rest = thread::spawn(move || written.read_to_end(&mut Vec::new()));
        let mut next = None;
        eventually("the directory is free", || {
            next = start(&rig, engine.as_ref()).ok();
            next.is_some()
        });
        let (rows, summary) = rig.finish(&next.unwrap());
        assert!(summary.failure.is_none(), "{:?}", summary.failure);
        assert_eq!(vec![body.into_bytes()], check(&rig, &rows).into_values().collect::<Vec<_>>());
        rest.join().unwrap().unwrap();
    }
}
