package capnweb

import (
	"bytes"
	"encoding/binary"
	"reflect"
)

// typedElems has the element of each typed array that is more than bytes.
var typedElems = map[string]reflect.Kind{
	"Int16Array": reflect.Int16, "Uint16Array": reflect.Uint16, "Int32Array": reflect.Int32,
	"Uint32Array": reflect.Uint32, "Float32Array": reflect.Float32, "Float64Array": reflect.Float64,
	"BigInt64Array": reflect.Int64, "BigUint64Array": reflect.Uint64,
}

// decodeElems reads the elements into a slice of their kind.
func decodeElems(v TypedArray, dst reflect.Value) error {
	n := len(v.Data) / elementSizes[v.Kind]
	out := reflect.MakeSlice(dst.Type(), n, n)
	into := reflect.New(out.Type())
	into.Elem().Set(out)
	if err := binary.Read(bytes.NewReader(v.Data), binary.LittleEndian, into.Elem().Interface()); err != nil {
		return misfitf("%d bytes are no %s", len(v.Data), v.Kind)
	}
	dst.Set(into.Elem())
	return nil
}
