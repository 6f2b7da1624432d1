package wire

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	_ "image/gif"  // what image.DecodeConfig knows
	_ "image/jpeg" // likewise
	_ "image/png"  // likewise
)

// measure returns the size in pixels of an image of one of WebImages, 0 when its header cannot be read or its end is
// missing. It looks at the frame of a format and decodes no pixel.
func measure(data []byte, mimeType string) (width, height int) {
	whole := map[string]func([]byte) bool{"image/png": wholePNG, "image/jpeg": wholeJPEG, "image/gif": wholeGIF}[mimeType]
	if mimeType == "image/webp" {
		return measureWebP(data)
	}
	if whole == nil || !whole(data) {
		return 0, 0
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return 0, 0
	}
	return c.Width, c.Height
}

// wholePNG follows the chunks to the last one, IEND. Those that no decoder can do without must have their checksum.
func wholePNG(data []byte) bool {
	const header, frame = 8, 12 // of the file; length, type and checksum of a chunk
	for data = data[header:]; len(data) >= frame; {
		n := uint64(binary.BigEndian.Uint32(data))
		if n > uint64(len(data)-frame) {
			return false
		}
		kind, body := string(data[4:8]), data[4:8+n]
		critical := kind[0]&0x20 == 0
		if critical && crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(data[8+n:]) {
			return false
		}
		if kind == "IEND" {
			return true
		}
		data = data[frame+n:]
	}
	return false
}

// wholeJPEG follows the segments to the first scan, and looks for the end of the image behind it: a thumbnail has an end
// of its own, within a segment.
func wholeJPEG(data []byte) bool {
	const scan = 0xDA
	for data = data[2:]; len(data) >= 4 && data[0] == 0xFF; {
		marker, n := data[1], 2+int(binary.BigEndian.Uint16(data[2:]))
		switch {
		case marker == 0xFF: // filling
			data = data[1:]
		case n > len(data):
			return false
		case marker == scan:
			return bytes.Contains(data[n:], []byte{0xFF, 0xD9})
		default:
			data = data[n:]
		}
	}
	return false
}

// wholeGIF follows the blocks to the trailer.
func wholeGIF(data []byte) bool {
	const header, descriptor = 13, 10
	if len(data) < header {
		return false
	}
	for data = beyond(data, header+colours(data[10])); len(data) > 0; {
		switch data[0] {
		case ';':
			return true
		case '!': // an extension, its label and its pieces
			data = beyondPieces(beyond(data, 2))
		case ',': // a frame, the width of its codes and its pieces
			if len(data) < descriptor {
				return false
			}
			data = beyondPieces(beyond(data, descriptor+colours(data[9])+1))
		default:
			return false
		}
	}
	return false
}

// colours returns the size of the table of colours that flags announce.
func colours(flags byte) int {
	if flags&0x80 == 0 {
		return 0
	}
	return 3 << (1 + flags&7)
}

// beyondPieces returns what follows pieces of data, each behind its length, of which the last has none.
func beyondPieces(data []byte) []byte {
	for len(data) > 0 && data[0] != 0 {
		data = beyond(data, 1+int(data[0]))
	}
	return beyond(data, 1)
}

func beyond(data []byte, n int) []byte { return data[min(n, len(data)):] }

// measureWebP reads the size from the first chunk. The file says how long it is.
func measureWebP(data []byte) (width, height int) {
	const header = 12 // RIFF, length, WEBP
	if len(data) < header+18 || uint64(binary.LittleEndian.Uint32(data[4:]))+8 > uint64(len(data)) {
		return 0, 0
	}
	body := data[header+8:] // of the first chunk, behind its type and its length
	u24 := func(at int) int { return int(body[at]) | int(body[at+1])<<8 | int(body[at+2])<<16 }
	switch string(data[header : header+4]) {
	case "VP8X":
		return 1 + u24(4), 1 + u24(7)
	case "VP8L":
		bits := int(binary.LittleEndian.Uint32(body[1:]))
		return 1 + bits&0x3FFF, 1 + bits>>14&0x3FFF
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(body[6:])) & 0x3FFF, int(binary.LittleEndian.Uint16(body[8:])) & 0x3FFF
	}
	return 0, 0
}
