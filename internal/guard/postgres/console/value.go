package console

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Type is the type of a column: its number in Postgres (pg_type.oid).
type Type uint32

// The values of a column are of the Go type that is named here.
const (
	Bool    Type = 16   // bool
	Integer Type = 20   // int64
	Text    Type = 25   // string
	Time    Type = 1184 // time.Time; a zero time is NULL
)

// Formats of values.
const (
	textFormat   = 0
	binaryFormat = 1
)

// timeLayout is how Postgres writes a timestamptz with DateStyle ISO, in UTC.
const timeLayout = "2006-01-02 15:04:05.999999-07"

// epoch is when Postgres begins to count time.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// size returns what RowDescription says of a type.
func (t Type) size() int16 {
	switch t {
	case Bool:
		return 1
	case Integer, Time:
		return 8
	}
	return -1
}

// encode returns a value in a format, and nil for NULL.
func encode(value any, format int16) []byte {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		return append([]byte{}, v...)
	case bool:
		if format == binaryFormat {
			return map[bool][]byte{false: {0}, true: {1}}[v]
		}
		return map[bool][]byte{false: []byte("f"), true: []byte("t")}[v]
	case int64:
		if format == binaryFormat {
			return binary.BigEndian.AppendUint64(nil, uint64(v))
		}
		return strconv.AppendInt(nil, v, 10)
	case time.Time:
		if v.IsZero() {
			return nil
		}
		if format == binaryFormat {
			return binary.BigEndian.AppendUint64(nil, uint64(v.Sub(epoch).Microseconds()))
		}
		return v.UTC().AppendFormat(nil, timeLayout)
	}
	panic(fmt.Sprintf("console: a value of type %T", value))
}

// describe returns the description of columns. formats has one format for each column, or one for
// all, or none: text.
func describe(columns []Column, formats []int16) *pgproto3.RowDescription {
	d := &pgproto3.RowDescription{}
	for i, c := range columns {
		d.Fields = append(d.Fields, pgproto3.FieldDescription{
			Name: []byte(c.Name), DataTypeOID: uint32(c.Type), DataTypeSize: c.Type.size(),
			TypeModifier: -1, Format: formatOf(formats, i),
		})
	}
	return d
}

func dataRow(values []any, formats []int16) *pgproto3.DataRow {
	row := &pgproto3.DataRow{}
	for i, v := range values {
		row.Values = append(row.Values, encode(v, formatOf(formats, i)))
	}
	return row
}

func formatOf(formats []int16, column int) int16 {
	switch len(formats) {
	case 0:
		return textFormat
	case 1:
		return formats[0]
	}
	return formats[column]
}
