"""What PTR is told about each chunk, recomputed chunk by chunk."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime

import pytest
import torch

from ptr_robot.method.ptr.config import TargetConfig
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.train.build import build_parts
from ptr_robot.train.config import DatasetConfig, resolve
from ptr_robot.train.module import all_chunks
from ptr_robot.train.samples import make_samples
from ptr_robot.train.sources import SourceRecord


@pytest.fixture(params=["future", "change"])
def image_parts(request, settings, image_data):
    config = settings()
    config = dataclasses.replace(
        config,
        dataset=DatasetConfig(repo_id=str(image_data), num_chunks=3, cache_dir=str(image_data.parent / "cache")),
        policy=VLAChoice(preset="tiny", chunk_length=4, image_size=32, device="cpu"),
        ptr=dataclasses.replace(config.ptr, targets=TargetConfig(kind=request.param)),
    )
    return build_parts(resolve(config, datetime.now()))


def test_sources_remember_their_state_and_their_cameras(image_parts):
    (source,) = image_parts.sources
    assert source.state_key == "observation.state"
    assert source.camera_sizes == ((32, 32),)
    record = json.loads(json.dumps(source.to_dict()))
    assert SourceRecord.from_dict(record).to_dict() == source.to_dict()
    older = {name: value for name, value in record.items() if name not in ("state_key", "camera_sizes")}
    assert SourceRecord.from_dict(older).camera_sizes == ()
    assert SourceRecord.from_dict(older).state_key is None


def unit(vector):
    return vector / vector.norm().clamp_min(1e-6)


def test_image_targets_are_the_encoded_frames_of_each_chunk(image_parts):
    batch, ptr = next(iter(image_parts.loader)), image_parts.module.ptr
    assert (~batch.has_target).any()
    samples = make_samples(ptr, batch)
    for segment in range(batch.batch_size):
        for chunk in range(batch.num_chunks):
            if not batch.has_target[segment, chunk]:
                continue
            frames = batch.frames[segment]
            target = ptr.encode(frames[batch.future_frame[segment, chunk]])
            if ptr.config.targets.kind == "change":
                target = target - ptr.encode(frames[batch.current_frame[segment, chunk]])
            row = segment * batch.num_chunks + chunk
            torch.testing.assert_close(samples.targets[row], unit(target), rtol=1e-4, atol=1e-5)
    assert not samples.targets.requires_grad


def test_a_missing_view_does_not_count(image_parts):
    batch, ptr = next(iter(image_parts.loader)), image_parts.module.ptr
    noise = torch.randint_like(batch.frames, 0, 255)
    two_views = dataclasses.replace(
        batch,
        frames=torch.cat([batch.frames, noise], dim=2),
        view_mask=torch.cat([batch.view_mask, torch.zeros_like(batch.view_mask)], dim=1),
    )
    torch.testing.assert_close(make_samples(ptr, two_views).targets, make_samples(ptr, batch).targets)


def test_state_targets_and_identities(settings):
    parts = build_parts(resolve(settings(), datetime.now()))
    batch = next(iter(parts.loader))
    samples = make_samples(parts.module.ptr, batch)
    for segment in range(batch.batch_size):
        for chunk in range(batch.num_chunks):
            row = segment * batch.num_chunks + chunk
            torch.testing.assert_close(samples.targets[row], unit(batch.future_states[segment, chunk]))
            assert samples.sample_ids[row] == batch.sample_id[segment, chunk]
            assert samples.episode_ids[row] == batch.episode_id[segment]
            assert samples.task_ids[row] == batch.task_id[segment]
            assert samples.states[row].equal(batch.states[segment, chunk])
            assert samples.chunk_is_pad[row] == batch.chunk_is_pad[segment, chunk]
            assert samples.offsets[row] == 0


def test_an_offset_of_two_chunks_is_one(settings):
    config = settings()
    config = dataclasses.replace(config, dataset=dataclasses.replace(config.dataset, offset_steps=8))
    parts = build_parts(resolve(config, datetime.now()))
    assert make_samples(parts.module.ptr, next(iter(parts.loader))).offsets.unique().tolist() == [1.0]


def test_all_chunks_at_once_are_the_chunks_one_by_one(settings):
    parts = build_parts(resolve(settings(method="sft"), datetime.now()))
    batch = next(iter(parts.loader))
    flat = parts.policy.forward_chunk(*all_chunks(batch), noise=Noise.keyed(3, batch.sample_id.flatten())).action_losses
    one_by_one = [
        parts.policy.forward_chunk(
            Observation.at_chunk(batch, index),
            ActionChunk.at_chunk(batch, index),
            noise=Noise.keyed(3, batch.sample_id[:, index]),
        ).action_losses
        for index in range(batch.num_chunks)
    ]
    torch.testing.assert_close(flat, torch.stack(one_by_one, dim=1).flatten())
