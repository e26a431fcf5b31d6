package arq

import "bytes"

// damage changes a frame on its way: the record, or for a hostile relay what is not
// protected either.
func (w *world) damage(f *Frame) {
	if f.Kind != KindData {
		return
	}
	p := bytes.Clone(f.Data.Payload)
	switch w.rng.IntN(4) {
	case 0:
		p = p[:w.rng.IntN(len(p))]
	case 1:
		p = append(p, 0)
	default:
		p[w.rng.IntN(len(p))] ^= 1 << w.rng.IntN(8)
	}
	f.Data.Payload = p
}

// forged is a frame that end e did not send.
func (w *world) forged(e *end) Frame {
	s, peer := e.stream, w.ends[1-e.id].stream
	f := Frame{Kind: KindAck, Epoch: s.epoch, Ack: s.receiver.ack()}
	kinds := []forgery{}
	for k := forgery(1); k <= forgeReset; k <<= 1 {
		if w.forge&k != 0 {
			kinds = append(kinds, k)
		}
	}
	around := func(n uint64) uint32 { return uint32(int64(n) + int64(w.rng.IntN(80)) - 40) }
	switch kinds[w.rng.IntN(len(kinds))] {
	case forgeData:
		f.Kind = KindData
		f.Data = Data{Seq: around(peer.receiver.next), Index: 0, Count: 1, Payload: make([]byte, w.rng.IntN(100))}
	case forgeHead:
		old := e.old[w.rng.IntN(len(e.old))]
		if old.Kind == KindData {
			f.Kind, f.Data = KindData, old.Data
			f.Data.Index, f.Data.Count = w.rng.Uint32N(4), w.rng.Uint32N(4)
			f.Data.Seq += w.rng.Uint32N(2)
		}
	case forgeBits:
		f.Ack.Bits = w.rng.Uint32()
	case forgeWindow:
		f.Ack.Window = w.rng.Uint32()
		if w.rng.IntN(2) == 0 {
			f.Ack.Window = around(peer.sender.credit)
		}
	case forgeBack:
		f = e.old[w.rng.IntN(len(e.old))]
		f.Data.Payload = bytes.Clone(f.Data.Payload)
	case forgeAck:
		f.Ack.HasAck, f.Ack.Ack = true, around(peer.sender.una)
		f.Ack.Window = f.Ack.Ack + 100
	case forgeEpoch:
		f.Epoch = w.rng.Uint32() >> w.rng.IntN(32)
	case forgeReset:
		f = Frame{Kind: KindReset, Reason: "forged"}
	case harmless: // is several
	}
	return f
}
