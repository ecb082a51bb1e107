//! The library as a host puts it together.

use std::{fs, sync::Arc, time::Duration};

use recount::{
    BuildError, Metadata, Recount,
    delivery::{MessageDeliveryStatus as Status, OutboxLimits},
    log::{EventLog, MemoryLog},
    service::DueIndex as _,
};
use recount_core::doc;

use super::{
    process::{Destinations, Running},
    running::on_paused_time,
};

fn sleep(seconds: u64) -> tokio::time::Sleep {
    tokio::time::sleep(Duration::from_secs(seconds))
}

#[test]
fn a_host_keeps_its_view_and_starts_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.checkpoint");
    on_paused_time(async {
        let log: Arc<dyn EventLog> = Arc::new(MemoryLog::new());
        let clock = Arc::new(Running(tokio::time::Instant::now()));
        let host = || {
            Recount::builder(log.clone(), Destinations::kind())
                .clock(clock.clone())
                .metadata(Metadata::of_actor("host"))
                .limits(OutboxLimits { max_pending_per_owner: 300, ..OutboxLimits::default() })
                .concurrency(32)
                .poll_millis(10_000)
                .checkpoint(&path)
        };
        let recount = host().build().await.unwrap();
        for number in 0..250 {
            recount.outboxes().prepare(doc::message(&format!("m-{number}"))).await.unwrap();
        }
        recount.run(sleep(30)).await;
        let first = fs::read(&path).expect("it is kept when it stops");
        let record = recount.outboxes().get(&doc::message("m-7").key).await.unwrap().unwrap();
        assert_eq!(record.status, Status::Processed);

        let again = host().build().await.unwrap();
        assert_eq!(again.deliveries().head(), recount.deliveries().head(), "nothing is read again");
        for number in 250..500 {
            again.outboxes().prepare(doc::message(&format!("m-{number}"))).await.unwrap();
        }
        // Dropped after a minute, as by a crash.
        tokio::select! {
            () = again.run(std::future::pending()) => {}
            () = sleep(61) => {}
        }
        assert_ne!(fs::read(&path).unwrap(), first, "it is kept while it runs, too");

        fs::write(&path, "no checkpoint").unwrap();
        let third = host().build().await.unwrap();
        assert_eq!(third.deliveries().head(), None);
        third.deliveries().catch_up().await.unwrap();
        assert_eq!(third.deliveries().digest(), again.deliveries().digest());
        third.run(sleep(1)).await;
        assert!(fs::read_dir(&folder).unwrap().count() > 1, "what stood there is kept");
        assert_eq!(host().build().await.unwrap().deliveries().head(), third.deliveries().head());
    });
}

#[test]
fn a_host_that_cannot_be_put_together_says_why() {
    let log: Arc<dyn EventLog> = Arc::new(MemoryLog::new());
    let builder = Recount::builder(log, Destinations::kind()).concurrency(33);
    let error = futures_executor::block_on(builder.build()).unwrap_err();
    assert!(matches!(error, BuildError::Limit(_)), "{error:?}");
    assert_eq!(error.to_string(), "driver-limits: a limit is 1 to 32, not 33");
}
