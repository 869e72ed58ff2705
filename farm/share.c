/*
 * share.c - whether what a worker reports can be: the master must not trust it with its memory.
 */
#include "share.h"

static bool fits_file(const struct farm_report *report, const struct farm_order *order) {
  if (order->type != FARM_ORDER_START && order->type != FARM_ORDER_PART) return false;
  if (report->file != FARM_PROGRAM && (report->file != FARM_DATA || !order->has_data)) return false;
  if (order->size[0] + order->size[1] <= FARM_SHORT) return false; /* it came with START */
  return report->offset >= 0 && report->offset < order->size[report->file];
}

static bool fits_output(const struct farm_report *report, const struct farm_order *order,
                        const struct farm_told *told) {
  uint64_t size;
  if (order->type != FARM_ORDER_SEND) return false;
  if (report->part_size <= 0) return true; /* it cannot be read */
  size = order->file == FARM_OUT ? told->out_size : told->err_size;
  return report->part_size <= FARM_PART && (uint64_t)order->offset <= size &&
         (uint64_t)report->part_size <= size - (uint64_t)order->offset;
}

bool farm_report_fits(const struct farm_report *report, const struct farm_order *order,
                      const struct farm_told *told) {
  if (report->type == FARM_REPORT_WANT) return fits_file(report, order);
  if (report->type == FARM_REPORT_SENT) return fits_output(report, order, told);
  return true;
}
