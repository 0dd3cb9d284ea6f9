"""ConseModel against its formula by hand, on small random networks."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModel

from heedful.models.conse import ConseConfig, ConseModel

TEXT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TEXT |= {"vocab_size": 30}
VISION = {"depth_multiplier": 0.25, "image_size": 32, "num_labels": 5, "tf_padding": False}


def tiny() -> ConseModel:
    torch.manual_seed(0)
    model = ConseModel(ConseConfig(vision_config=VISION, text_config=TEXT)).eval()
    model.class_vectors.copy_(torch.nn.functional.normalize(torch.randn(5, 16)))
    return model


def test_vectors_by_hand() -> None:
    model = tiny()
    pixels, ids = torch.randn(2, 3, 32, 32), torch.tensor([[3, 4, 5], [6, 7, 0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    with torch.no_grad():
        shares = model.vision(pixels).logits.softmax(-1)
        pictures = model.get_image_features(pixels)
        texts = model.get_text_features(ids, mask).pooler_output
        alone = model.text(ids[1:, :2]).last_hidden_state.mean(1)[0]
        cosines = model(ids, pixels, mask)
    wanted = sum(shares[1, c] * model.class_vectors[c] for c in range(5))
    torch.testing.assert_close(pictures[1], wanted)
    torch.testing.assert_close(texts[1], alone, atol=1e-5, rtol=1e-4)  # padding has no part
    want = torch.nn.functional.cosine_similarity(pictures[0], texts[1], dim=0)
    torch.testing.assert_close(cosines[0, 1], want)


def test_gradients_reach_pixels() -> None:
    pixels = torch.randn(1, 3, 32, 32, requires_grad=True)
    tiny()(torch.tensor([[3, 4]]), pixels).sum().backward()
    assert pixels.grad is not None
    assert pixels.grad.abs().sum() > 0


def test_a_folder_gives_the_same(tmp_path: Path) -> None:
    model = tiny()
    model.save_pretrained(tmp_path)
    again, info = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    assert torch.equal(again.class_vectors, model.class_vectors)
    assert (again.config.vision_config.num_labels, again.config.text_config.hidden_size) == (5, 16)
