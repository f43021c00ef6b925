from __future__ import annotations

import pytest
import torch
from torch import nn

from ptr_robot.errors import ConfigError, ShapeError
from ptr_robot.method import EMATargetEncoder, make_targets


class Tower(nn.Module):
    """A little vision transformer with a class token, whose blocks count how often they run."""

    def __init__(self, depth: int = 4, dim: int = 8) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, dim))
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(dim, 2, 16, batch_first=True) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, images):
        tokens = self.patch(images).flatten(2).mT
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        return self.norm(tokens)[:, 0]


def expected_features(tower: Tower, images, depth: int):
    """Run the first blocks by hand; images (n, 3, H, W)."""
    tokens = tower.patch(images).flatten(2).mT
    tokens = torch.cat([tower.token.expand(len(tokens), -1, -1), tokens], dim=1)
    for block in tower.blocks[:depth]:
        tokens = block(tokens)
    return tokens[:, 1:].mean(dim=1)


def test_features_are_the_patch_mean_after_the_block_over_views():
    tower = Tower().eval()
    encoder = EMATargetEncoder(tower, block=3, num_prefix_tokens=1)
    images = torch.randn(2, 5, 2, 3, 8, 8)  # (B, frames, V, 3, H, W)
    features = encoder(images)
    assert features.shape == (2, 5, 8)
    views = [expected_features(tower, images[:, :, v].flatten(0, 1), 3) for v in range(2)]
    torch.testing.assert_close(features.flatten(0, 1), (views[0] + views[1]) / 2)


def test_half_of_the_blocks_by_default_and_the_rest_is_not_kept():
    tower = Tower(depth=6)
    encoder = EMATargetEncoder(tower)
    assert encoder.block_name == "blocks.2"
    assert len(list(encoder.tower.blocks[3:].parameters())) == 0


def test_twelve_of_twenty_four_by_default():
    assert EMATargetEncoder(Tower(depth=24)).block_name == "blocks.11"


def test_later_blocks_do_not_run():
    tower = Tower()
    encoder = EMATargetEncoder(tower, block=2)
    encoder.tower.norm.register_forward_hook(lambda *_: pytest.fail("the pass went on"))
    encoder(torch.randn(1, 1, 3, 8, 8))


def test_convolutional_towers_are_cut_by_name():
    tower = nn.Sequential()
    tower.add_module("stem", nn.Conv2d(3, 4, 3))
    tower.add_module("layer", nn.BatchNorm2d(4))
    tower.add_module("head", nn.Flatten())
    encoder = EMATargetEncoder(tower, block="layer")
    images = torch.randn(2, 1, 3, 6, 6)
    expected = tower.eval()(images[:, 0]).unflatten(1, (4, 16)).mean(dim=2)
    torch.testing.assert_close(encoder(images), expected)


def test_update_is_the_exponential_moving_average():
    tower = Tower()
    encoder = EMATargetEncoder(tower)
    before = {name: value.clone() for name, value in encoder.tower.named_parameters()}
    with torch.no_grad():
        for parameter in tower.parameters():
            parameter.add_(1.0)
    encoder.update(tower, 0.9)
    online = dict(tower.named_parameters())
    for name, value in encoder.tower.named_parameters():
        torch.testing.assert_close(value, 0.9 * before[name] + 0.1 * online[name])


def test_decay_one_freezes_and_decay_zero_copies():
    tower = Tower()
    frozen, online = EMATargetEncoder(tower), EMATargetEncoder(tower)
    with torch.no_grad():
        tower.token.add_(1.0)
    frozen.update(tower, 1.0)
    online.update(tower, 0.0)
    torch.testing.assert_close(frozen.tower.token, tower.token - 1.0)
    torch.testing.assert_close(online.tower.token, tower.token)


def test_a_bfloat16_tower_is_still_followed():
    """In bfloat16 a step of 0.001 towards 1 + 2^-8 would round to nothing."""
    tower = Tower().to(torch.bfloat16)
    encoder = EMATargetEncoder(tower)
    start = encoder.tower.token.clone()
    with torch.no_grad():
        tower.token.add_(0.125)
    for _ in range(10):
        encoder.update(tower, 0.999)
    moved = (encoder.tower.token - start).abs()
    assert (moved > 0).all()


def test_no_gradient_reaches_the_encoder_or_the_tower():
    tower = Tower()
    encoder = EMATargetEncoder(tower)
    images = torch.randn(2, 1, 3, 8, 8, requires_grad=True)
    assert not encoder(images).requires_grad
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    features = torch.randn(2, 8, requires_grad=True)
    assert not make_targets(features).requires_grad


def test_targets_do_not_depend_on_training_mode():
    tower = Tower()
    tower.train()
    encoder = EMATargetEncoder(tower).train()
    images = torch.randn(2, 1, 3, 8, 8)
    assert encoder(images).equal(encoder(images))  # the blocks have dropout 0.1


def test_targets_have_unit_length():
    torch.testing.assert_close(make_targets(torch.randn(5, 7)).norm(dim=1), torch.ones(5))


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (0, "block is 0; 'blocks' has 4 blocks, so it must be 1 to 4"),
        (5, "block is 5; 'blocks' has 4 blocks, so it must be 1 to 4"),
        ("blocs.2", "did you mean 'blocks.2'"),
    ],
)
def test_a_block_that_is_not_there(block, message):
    with pytest.raises(ConfigError, match=message):
        EMATargetEncoder(Tower(), block=block)


def test_a_tower_without_blocks_asks_for_a_name():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.only = nn.Conv2d(3, 4, 3)

    with pytest.raises(ConfigError, match="name the module to cut after, for example one of: only"):
        EMATargetEncoder(Flat())


def test_wrong_images_and_another_tower_are_named():
    encoder = EMATargetEncoder(Tower())
    with pytest.raises(ShapeError, match=r"images have shape \(3, 8, 8\)"):
        encoder(torch.randn(3, 8, 8))
    with pytest.raises(ConfigError, match="no parameter 'token'"):
        encoder.update(nn.Linear(2, 2), 0.999)
    with pytest.raises(ConfigError, match="need the features before"):
        make_targets(torch.randn(2, 3), kind="change")


def test_a_tower_with_channels_last_gives_a_feature_for_every_channel():
    timm = pytest.importorskip("timm")
    tower = timm.create_model("swin_tiny_patch4_window7_224", num_classes=0, img_size=64, window_size=2)
    encoder = EMATargetEncoder(tower)
    images = torch.randn(2, 1, 3, 64, 64)
    kept = {}
    block = encoder.tower.get_submodule(encoder.block_name)
    block.register_forward_hook(lambda _module, _inputs, output: kept.update(features=output))
    features = encoder(images)
    maps = kept["features"]  # (2, height, width, channels)
    assert maps.shape[1] == maps.shape[2] < maps.shape[3]
    torch.testing.assert_close(features, maps.flatten(1, 2).mean(dim=1))


def test_half_way_through_a_tower_of_equal_stages_is_half_of_its_blocks():
    timm = pytest.importorskip("timm")
    assert EMATargetEncoder(timm.create_model("resnet18", num_classes=0)).block_name == "layer2.1"
    assert EMATargetEncoder(timm.create_model("resnet18", num_classes=0), block=7).block_name == "layer4.0"


def test_buffers_of_the_tower_are_copied_and_not_averaged():
    """Batch-norm statistics are averages already, and counts are integers."""
    tower = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)), nn.BatchNorm2d(4))
    encoder = EMATargetEncoder(tower, block="1")
    tower.train()(torch.randn(8, 3, 2, 2) + 3)  # moves the running mean, the running variance and the count
    encoder.update(tower, 0.999)
    mine, theirs = dict(encoder.tower.named_buffers()), dict(tower.named_buffers())
    assert theirs["1.num_batches_tracked"] == 1
    assert mine.keys() == theirs.keys()
    for name, buffer in theirs.items():
        assert torch.equal(mine[name], buffer), name


class Stages(nn.ModuleDict):
    """Stages by name that run in order, as torchvision's feature extractors have them."""

    def __init__(self) -> None:
        super().__init__({name: nn.Conv2d(3, 3, 3, padding=1) for name in ("stem", "layer1", "layer2", "layer3")})

    def forward(self, images):
        for stage in self.values():
            images = stage(images)
        return {"map": images}


def test_with_an_example_the_copy_holds_only_what_the_cut_pass_needs():
    tower, images = Stages(), torch.rand(2, 1, 3, 8, 8)
    whole = EMATargetEncoder(tower, block="layer1")
    cut = EMATargetEncoder(tower, block="layer1", example=torch.zeros(1, 3, 8, 8))
    assert {name.split(".")[0] for name, _ in cut.tower.named_parameters()} == {"stem", "layer1"}
    assert {name.split(".")[0] for name, _ in whole.tower.named_parameters()} == {"stem", "layer1", "layer2", "layer3"}
    torch.testing.assert_close(cut(images), whole(images), rtol=0, atol=0)
    cut.update(tower, 0.5)  # names of what is left are the tower's


class ReadsWithoutACall(Tower):
    """Uses a layer's parameters before its blocks, and never calls the layer."""

    def forward(self, images):
        tokens = self.patch(images).flatten(2).mT * self.norm.weight
        for block in self.blocks:
            tokens = block(tokens)
        return tokens


def test_what_is_read_without_a_call_is_kept():
    tower = ReadsWithoutACall()
    encoder = EMATargetEncoder(tower, block=2, example=torch.rand(1, 3, 8, 8))
    assert isinstance(encoder.tower.norm, nn.LayerNorm)
    torch.testing.assert_close(encoder.tower.norm.weight, tower.norm.weight)
