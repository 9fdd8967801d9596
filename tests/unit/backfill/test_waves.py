"""Every vnode is read once, in waves that fit, labelled before any real epoch."""

from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.snapshot_backfill.phase import VnodeBackfillProgress, next_waves, wave_epoch
from ops.common.epoch import ORIGIN_MS, ZERO, Epoch, epoch_at


@given(
    st.integers(1, 64),
    st.data(),
    st.integers(0, 10**7),
    st.integers(1, 3_000_000),
)
def test_waves(count: int, data: st.DataObject, rows: int, per_wave: int) -> None:
    vnodes = data.draw(st.lists(st.integers(0, count - 1)))
    progress = {
        v: VnodeBackfillProgress(v, Epoch(1), 5, done)
        for v, done in data.draw(st.dictionaries(st.integers(0, count - 1), st.booleans())).items()
    }
    waves = next_waves(vnodes, progress, rows=rows, vnode_count=count, rows_per_wave=per_wave)
    read = [v for wave in waves for v in wave]
    finished = {v for v, p in progress.items() if p.is_finished}
    assert read == sorted(set(vnodes) - finished)
    assert all(wave for wave in waves)
    per_vnode = max(1, rows // count)
    assert all(len(w) == 1 or len(w) * per_vnode <= per_wave for w in waves)
    # No more waves than needed: all but the last are full.
    assert all(len(w) == len(waves[0]) for w in waves[:-1])


def test_a_small_table_is_one_wave() -> None:
    waves = next_waves(range(16), {}, rows=1000, vnode_count=16, rows_per_wave=2_000_000)
    assert waves == [tuple(range(16))]


def test_labels_rise_and_stay_before_any_real_epoch() -> None:
    label, labels = ZERO, []
    for _ in range(1000):
        label = wave_epoch(label)
        labels.append(label)
    assert labels == sorted(set(labels)) and labels[0] > ZERO
    # 1000 waves are one second after the origin; no platform ran then.
    assert labels[-1] == epoch_at(ORIGIN_MS + 1000)
