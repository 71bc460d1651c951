//! `workfs demo`: a tour on real folders, with real programs, through real mounts.
//!
//! Each step says what it does, shows what it sees, and checks it. What does not hold ends the tour with exit code 1;
//! however it ends, what it made is taken away again.

mod guide;
mod sample;
mod tour;

use crate::cli;
use crate::failure::Failure;
use crate::signals::Signals;
use guide::{Guide, say};
use sample::Sample;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Takes the tour.
///
/// # Errors
/// Exit code 1 where a step does not do what it says, or where it was interrupted.
pub fn run(arguments: &cli::Demo) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))?;
    let result = runtime.block_on(whole(arguments.keep));
    // A call that hangs in a mount must not keep the demo from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn whole(keep: bool) -> Result<(), Failure> {
    let interrupted = watch_signals().map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))?;
    let sample = Arc::new(Sample::make().map_err(|error| Failure::new(format!("cannot make the sample: {error}")))?);
    let mut guide = Guide::new(sample.clone(), interrupted, keep);
    let toured = tour::take(&mut guide).await;
    if toured.is_ok() && keep {
        tour::farewell(&guide);
        sample.keep();
        return Ok(());
    }
    if let Err(why) = &toured {
        say(&format!("\nThe tour ends here: {why}"));
        guide.show_log();
    }
    let cleaned = guide.clean_up().await;
    match (toured, cleaned) {
        (Ok(()), Ok(())) => {
            tour::summary(&guide);
            Ok(())
        }
        (Err(why), Ok(())) => Err(Failure::new(format!("demo: {why}; all that it made is taken away again"))),
        (Ok(()), Err(left)) => Err(Failure::new(format!("demo: {left}"))),
        (Err(why), Err(left)) => Err(Failure::new(format!("demo: {why}; moreover, {left}"))),
    }
}

/// Becomes true at the first signal that wants the demo to end.
fn watch_signals() -> std::io::Result<watch::Receiver<bool>> {
    let mut signals = Signals::watch()?;
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        signals.next().await;
        let _ = sender.send(true);
        // Kept, so that waiting for the signal never ends by its sender's end.
        sender.closed().await;
    });
    Ok(receiver)
}
