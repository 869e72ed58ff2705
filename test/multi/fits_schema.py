"""fits_schema.py SCHEMA FILE...: says what in each file of JSON does not fit the schema.

One line for each fault, at most 20 of a file: FILE, the place in it, and what is wrong.  Status 0
if there is none, 1 if there are some, 2 if the schema is none.
"""

import json
import sys

from jsonschema import Draft7Validator, SchemaError

schema = json.load(open(sys.argv[1]))
try:
    Draft7Validator.check_schema(schema)
except SchemaError as error:
    print(f"{sys.argv[1]}: {error.message}")
    sys.exit(2)
faults = 0
for path in sys.argv[2:]:
    found = Draft7Validator(schema).iter_errors(json.load(open(path)))
    for fault, _ in zip(found, range(20)):
        where = ".".join(str(part) for part in fault.absolute_path)
        print(f"{path}: {where}: {fault.message}")
        faults += 1
sys.exit(1 if faults else 0)
